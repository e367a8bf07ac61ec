/**
 * JSON as editors allow it, with comments and trailing commas. Two plain passes without regular expressions over
 * the whole: the text is a stranger's.
 */
export function readJsonc(text: string): unknown {
  return JSON.parse(withoutTrailingCommas(withoutComments(text)));
}

function withoutComments(text: string): string {
  let kept = '';
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = endOfString(text, at);
    else if (text[at] === '/' && (text[at + 1] === '/' || text[at + 1] === '*')) {
      const end = endOfComment(text, at);
      kept += `${text.slice(from, at)} `;
      from = end;
      at = end - 1;
    }
  }
  return kept + text.slice(from);
}

function withoutTrailingCommas(text: string): string {
  let kept = '';
  let from = 0;
  let comma = -1;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '"') at = endOfString(text, at);
    if (character === ',') comma = at;
    else if (character === '}' || character === ']') {
      if (comma !== -1) {
        kept += text.slice(from, comma);
        from = comma + 1;
      }
      comma = -1;
    } else if (!' \n\r\t'.includes(character)) comma = -1;
  }
  return kept + text.slice(from);
}

/** The closing quote, or the end of the text where there is none. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}

function endOfComment(text: string, start: number): number {
  const close = text[start + 1] === '/' ? '\n' : '*/';
  const end = text.indexOf(close, start + 2);
  return end === -1 ? text.length : close === '\n' ? end : end + 2;
}
