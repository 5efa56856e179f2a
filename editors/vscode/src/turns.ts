/** Turns: one thing before the person at a time, in the order they came. Pure. */

/** A queue of asynchronous steps that never overlap. */
export class Turns {
  private last: Promise<unknown> = Promise.resolve();

  /** Run `step` when everything before it has ended; its result or its error. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const turn = this.last.then(step, step);
    this.last = turn.catch(() => undefined);
    return turn;
  }
}

/**
 * One run at a time, and the last wish counts: a call while one runs asks for one more run after it, which all
 * such callers share.
 */
export class SingleFlight {
  private running: Promise<void> | undefined;
  private next: Promise<void> | undefined;

  constructor(private readonly work: () => Promise<void>) {}

  run(): Promise<void> {
    if (this.next !== undefined) {
      return this.next;
    }
    if (this.running === undefined) {
      return this.begin();
    }
    this.next = this.running
      .catch(() => undefined)
      .then(() => {
        this.next = undefined;
        return this.begin();
      });
    return this.next;
  }

  private begin(): Promise<void> {
    const flight = this.work().finally(() => {
      if (this.running === flight) {
        this.running = undefined;
      }
    });
    this.running = flight;
    return flight;
  }
}
