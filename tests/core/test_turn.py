"""The guards inside a movement: from a reply to a plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.jobs import TurnState
from engine.core.limits import Safety
from engine.core.reply import Finish, Reply, ToolCall
from engine.core.turn import AskAgain, End, Nudge, Plan, RefuseCalls, RunCalls, advance, count_unknown

LIMITS = Safety()


def reply_with(*names: str, text: str = "", finish: Finish = Finish.STOP, args: str = "{}") -> Reply:
    return Reply(
        text=text,
        calls=tuple(ToolCall(f"c{n}", name, {"a": args}, args) for n, name in enumerate(names)),
        finish=finish,
    )


def plans(*replies: Reply, limits: Safety = LIMITS) -> list[Plan]:
    state, found = TurnState(), []
    for reply in replies:
        state, plan = advance(state, reply, limits)
        found.append(plan)
    return found


def reason(plan: Plan) -> str:
    assert isinstance(plan, End)
    return plan.outcome.reason


def test_calls_are_run_whatever_the_finish_reason_says() -> None:
    assert isinstance(plans(reply_with("Read", text="and now…"))[0], RunCalls)


def test_text_alone_is_reminded_twice_and_then_aborts_with_the_text_shown() -> None:
    first, second, third = plans(Reply(text="a"), Reply(text="b"), Reply(text="the answer"))
    assert (first, second) == (Nudge("remind.first"), Nudge("remind.second"))
    assert isinstance(third, End)
    assert (third.outcome.next, third.outcome.reason, third.outcome.result) == (
        "ABORT",
        "text_only_limit",
        "the answer",
    )


def test_a_call_between_forgives_text_alone() -> None:
    found = plans(Reply(text="a"), Reply(text="b"), reply_with("Read"), Reply(text="c"))
    assert found[3] == Nudge("remind.first")


def test_the_same_batch_four_times_in_a_row_aborts() -> None:
    found = plans(*[reply_with("Read")] * 4)
    assert [isinstance(plan, RunCalls) for plan in found] == [True, True, True, False]
    assert reason(found[3]) == "repeated_calls"


def test_another_batch_between_forgives_repetition() -> None:
    again = [reply_with("Read")] * 3
    assert all(isinstance(plan, RunCalls) for plan in plans(*again, reply_with("Grep"), *again))


def test_ids_do_not_make_batches_different() -> None:
    batches = [Reply(calls=(ToolCall(f"id{n}", "Read", {}, "{}"),)) for n in range(4)]
    assert reason(plans(*batches)[3]) == "repeated_calls"


def test_an_empty_reply_is_asked_again_twice_quietly_and_then_fails() -> None:
    found = plans(Reply(), Reply(reasoning="hm"), Reply())
    assert found[:2] == [AskAgain(), AskAgain()]
    end = found[2]
    assert isinstance(end, End)
    assert (end.outcome.next, end.outcome.reason, end.outcome.retryable) == (None, "empty_response", True)


def test_nothing_of_a_cut_reply_is_run_and_two_in_a_row_abort() -> None:
    cut = reply_with("Write", finish=Finish.CUT)
    found = plans(cut, cut)
    assert found[0] == RefuseCalls(cut.calls, "result.truncated")
    assert reason(found[1]) == "truncated_reply"


def test_a_movement_ends_after_its_iterations() -> None:
    found = plans(*[reply_with("Read", args=f'"{n}"') for n in range(4)], limits=Safety(max_iterations=3))
    assert [isinstance(plan, RunCalls) for plan in found] == [True, True, True, False]
    assert reason(found[3]) == "max_iterations"


def test_three_replies_in_a_row_with_only_unknown_tools_abort() -> None:
    state = TurnState()
    for _ in range(2):
        state, end = count_unknown(state, True, LIMITS)
        assert end is None
    _, end = count_unknown(state, True, LIMITS)
    assert end is not None and end.reason == "unknown_tool"
    forgiven, _ = count_unknown(state, False, LIMITS)
    assert forgiven.unknown_tool == 0


REPLIES = st.builds(
    Reply,
    text=st.sampled_from(["", " ", "text"]),
    reasoning=st.sampled_from(["", "r"]),
    calls=st.lists(
        st.builds(
            ToolCall,
            st.text(max_size=3),
            st.sampled_from(["Read", "x"]),
            st.none() | st.just({}),
            st.just("{}"),
        ),
        max_size=3,
    ).map(tuple),
    finish=st.sampled_from(list(Finish)),
)


@given(st.lists(REPLIES, max_size=30))
def test_every_reply_has_a_plan_and_text_alone_never_completes(replies: list[Reply]) -> None:
    state = TurnState()
    for reply in replies:
        state, plan = advance(state, reply, LIMITS)
        if isinstance(plan, End):
            assert plan.outcome.next in ("ABORT", None)
            break
