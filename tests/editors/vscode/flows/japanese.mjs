// The same in Japanese: the extension's texts, the server's, and the model's.
import { flow, given } from "./window.mjs";

await flow(
  "japanese",
  async (w) => {
    await w.open(given.workspace);
    await w.command("Maestro: タスクを開始");
    await w.asks("タスクを開始", "ピース（タスクの進め方）を選んでください", "Maestro にまかせる");
    await w.picture("piece");
    await w.choose("code");
    await w.asks("何をしますか?");
    await w.answer("失敗しているテストを通してください");
    await w.asks("Maestro からの確認 · code › plan", "Bash: python3 -m unittest", "確認の理由", "今回だけ許可");
    await w.picture("command");
    await w.choose("常に許可");
    await w.asks("Maestro からの質問", "切り上げ", "切り捨て");
    await w.button("複数行で書く…");
    await w.page.locator(".editor-instance .view-lines").first().waitFor();
    await w.write("円未満は切り捨て", "端数は出さない");
    await w.picture("letter");
    await w.click('.editor-actions .action-label[aria-label^="回答を送る"]');
    await w.asks("Maestro からの確認 · code › implement", "メモをつけて拒否");
    await w.sees(".tab", "price.py: 現在 ↔ 提案");
    await w.status("確認待ち 1");
    await w.picture("diff");
    await w.page.keyboard.press("Escape");
    await w.toast("まだあなたを待っています");
    await w.command("Maestro: ジョブを表示");
    await w.sees(".pane-body .monaco-list-row", "判断待ち");
    await w.picture("jobs");
    await w.click(".statusbar-item[id*='maestro.status'] a");
    await w.choose("このタスクでは許可");
    await w.toast("完了", "ジョブの内容を表示");
    await w.sees(".view-lines", "## 結果");
    await w.picture("done");
  },
  { cookies: [{ name: "vscode.nls.locale", value: "ja" }] },
);
