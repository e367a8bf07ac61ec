/** The settings in a file of npm, as they stand there. A name with `[]` has several values. */
export type NpmrcValues = Readonly<Record<string, string | readonly string[]>>;

/** Reads a file of npm as npm does: `name = value` by line, with variables of the environment put in. */
export function readNpmrc(text: string, env: NodeJS.ProcessEnv): NpmrcValues {
  const values = new Map<string, string | string[]>();
  for (const line of text.split(/[\r\n]+/)) {
    if (/^\s*(?:[;#]|$)/.test(line)) continue;
    // No setting that matters here stands in a section.
    if (/^\[[^\]]*\]\s*$/.test(line)) break;
    const [, left = '', right] = /^([^=]+)(?:=(.*))?$/.exec(line) ?? [];
    const key = replaceVariables(readWord(left), env);
    const value = replaceVariables(right === undefined ? 'true' : readWord(right), env);
    if (!key.endsWith('[]')) values.set(key, value);
    else {
      const name = key.slice(0, -2);
      const known = values.get(name);
      if (Array.isArray(known)) known.push(value);
      else values.set(name, known === undefined ? [value] : [known, value]);
    }
  }
  return Object.fromEntries(values);
}

/** The same settings as a file, each value exactly as given. */
export function writeNpmrc(values: NpmrcValues): string {
  const lines = Object.entries(values).flatMap(([name, value]) =>
    typeof value === 'string'
      ? [`${escapeName(name)}=${quote(value)}`]
      : value.map((each) => `${escapeName(name)}[]=${quote(each)}`),
  );
  return `${lines.join('\n')}\n`;
}

/** Variables are put in when a file is read; what has been read must not be read so again. */
const quote = (value: string): string => JSON.stringify(value.replaceAll('${', '\\${'));
const escapeName = (name: string): string => name.replace(/[\\;#]/g, (each) => `\\${each}`);

function readWord(text: string): string {
  const word = text.trim();
  if (/^(?:".*"|'.*')$/s.test(word)) return readQuoted(word);
  const [plain = ''] = /^(?:\\.|[^;#\\]|\\$)*/s.exec(word) ?? [];
  return plain.replace(/\\([\\;#])/g, '$1').trim();
}

function readQuoted(word: string): string {
  const text = word.startsWith("'") ? word.slice(1, -1) : word;
  try {
    const read = JSON.parse(text) as unknown;
    return typeof read === 'object' ? text : String(read);
  } catch {
    return text;
  }
}

function replaceVariables(text: string, env: NodeJS.ProcessEnv): string {
  return text.replace(/(?<!\\)(\\*)\$\{([^${}?]+)(\?)?\}/g, (whole, escapes: string, name: string, mark) => {
    if (escapes.length % 2 === 1) return whole.slice((escapes.length + 1) / 2);
    return escapes.slice(escapes.length / 2) + (env[name] ?? (mark === '?' ? '' : `\${${name}}`));
  });
}
