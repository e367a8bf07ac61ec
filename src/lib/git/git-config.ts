/** One setting of a file in git's configuration format. */
export interface GitSetting {
  /** Section and key without the subsection, in lower case: `core.hookspath`, `submodule.path`. */
  readonly name: string;
  readonly value: string;
}

/** Parses such a file as git does, in one pass. Lines that git would refuse are skipped. */
export function parseGitConfig(text: string): GitSetting[] {
  const settings: GitSetting[] = [];
  let section = '';
  let at = 0;
  while (at < text.length) {
    const letter = text[at] as string;
    if (letter === '#' || letter === ';') at = endOfLine(text, at);
    else if (letter === '[') {
      const end = endOfSection(text, at);
      section = (/^[a-z0-9-]*/i.exec(text.slice(at + 1, end).trimStart())?.[0] ?? '').toLowerCase();
      at = end + 1;
    } else if (/[a-z]/i.test(letter)) {
      const { name, value, end } = readSetting(text, at);
      settings.push({ name: `${section}.${name}`, value });
      at = end;
    } else at++;
  }
  return settings;
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end === -1 ? text.length : end;
}

/** A quoted subsection may contain a bracket. */
function endOfSection(text: string, from: number): number {
  let isQuoted = false;
  for (let at = from; at < text.length; at++) {
    const letter = text[at];
    if (letter === '\n') return at;
    if (letter === '\\' && isQuoted) at++;
    else if (letter === '"') isQuoted = !isQuoted;
    else if (letter === ']' && !isQuoted) return at;
  }
  return text.length;
}

function readSetting(text: string, from: number): { name: string; value: string; end: number } {
  let at = from;
  while (at < text.length && /[a-z0-9-]/i.test(text[at] as string)) at++;
  const name = text.slice(from, at).toLowerCase();
  while (text[at] === ' ' || text[at] === '\t') at++;
  if (text[at] !== '=') return { name, value: '', end: endOfLine(text, at) };
  return { name, ...readValue(text, at + 1) };
}

const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b', '\r': '', '\n': '' };

function readValue(text: string, from: number): { value: string; end: number } {
  const parts: string[] = [];
  /** Length without trailing blanks; quoted blanks count. */
  let kept = 0;
  let isQuoted = false;
  let at = from;
  for (; at < text.length; at++) {
    const letter = text[at] as string;
    if (letter === '\n') break;
    if (letter === '"') isQuoted = !isQuoted;
    else if (letter === '\\') {
      const next = text[++at] ?? '';
      if (next === '\r' && text[at + 1] === '\n') at++;
      parts.push(escapes[next] ?? next);
      if (next !== '\n' && next !== '\r') kept = parts.length;
    } else if (!isQuoted && (letter === '#' || letter === ';')) {
      at = endOfLine(text, at);
      break;
    } else if (isQuoted || !/\s/.test(letter)) {
      parts.push(letter);
      kept = parts.length;
    } else if (kept > 0) parts.push(letter);
  }
  return { value: parts.slice(0, kept).join(''), end: at };
}
