/** A piece's picture as the page of a webview. Pure. */

/**
 * The page: the picture and nothing else. It is shown as an image, in which nothing runs and nothing loads,
 * whatever a piece file of the workspace is called or says.
 */
export function graphPage(name: string, svg: string): string {
  const policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
  const picture = `data:image/svg+xml;base64,${Buffer.from(svg, "utf8").toString("base64")}`;
  return [
    "<!DOCTYPE html>",
    `<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">`,
    "<style>body{padding:16px;color-scheme:light}body.vscode-dark,body.vscode-high-contrast{color-scheme:dark}",
    "body.vscode-high-contrast-light{color-scheme:light}img{max-width:100%}</style>",
    `<img src="${picture}" alt="${escaped(name)}">`,
  ].join("\n");
}

function escaped(text: string): string {
  return text.replace(/[^\p{L}\p{N} .-]/gu, (sign) => `&#${sign.codePointAt(0)};`);
}
