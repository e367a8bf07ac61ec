import { isSecretName, longestLine, redactedMark, withoutSecrets } from './without-secrets.ts';

/** Each begins with what nothing else begins with, and takes what has no end to the end: a text is read once. */
const parts =
  /<!--[^-]*(?:-(?!->)[^-]*)*(?:-->)?|<!\[CDATA\[[^\]]*(?:\](?!\]>)[^\]]*)*(?:\]\]>)?|<(?:[^<>"']|"[^"]*"?|'[^']*'?)*>?|[^<]+/g;
const attribute = /(?<![\w:.-])([\w:.-]+)(\s*=\s*)("[^"]*"?|'[^']*'?|[^\s"'<>]+)/g;
/** What a person is known by goes with the password. */
const secretElement = /^(?:user-?name|login)$/i;

/** Settings in XML without the credentials in them: variables, and what has such a name. All else stays in its line. */
export function redactXml(text: string): string {
  /** The element whose text is a credential, while we are in it. */
  let secret: string | undefined;
  return text.replace(parts, (part) => {
    if (part.startsWith('<!--')) return withoutRemark(part);
    if (!part.startsWith('<') || part.startsWith('<![')) return secret === undefined ? plain(part) : marked(part);
    const [, end = '', name = ''] = /^<(\/?)([\w:.-]*)/.exec(part) ?? [];
    if (end !== '') {
      if (name === secret) secret = undefined;
    } else if (secret === undefined && isSecret(name) && !part.endsWith('/>')) secret = name;
    return withoutAttributes(part, name);
  });
}

/** A variable or an entry says what it is in one attribute, and its value in another. */
function withoutAttributes(tag: string, element: string): string {
  const found = [...tag.matchAll(attribute)];
  const isVariable = element === 'env';
  const isEntry = found.some(
    ([, key = '', , value = '']) => /^(?:name|key|id)$/i.test(key) && isSecret(unquoted(value)),
  );
  return tag.replace(attribute, (_, key: string, sign: string, value: string) => {
    const isGiven = isSecret(key) || (/^value$/i.test(key) && (isVariable || isEntry));
    const isName = /^(?:name|key|id)$/i.test(key);
    return `${key}${sign}${isGiven && !isName ? `"${marked(value)}"` : plain(value)}`;
  });
}

const isSecret = (name: string): boolean => isSecretName(name) || secretElement.test(name);
const unquoted = (text: string): string => text.replace(/^["']|["']$/g, '');

function plain(text: string): string {
  return text
    .split('\n')
    .map((line) => (line.length > longestLine ? redactedMark : withoutSecrets(line)))
    .join('\n');
}

/** As many lines as before. */
function marked(text: string): string {
  return text.trim() === '' ? text : redactedMark + '\n'.repeat(text.split('\n').length - 1);
}

/** What is put aside for a while is a secret all the same. */
function withoutRemark(remark: string): string {
  return /["'=@<]/.test(remark) || remark.length > longestLine ? `<!-- ${marked(remark)} -->` : plain(remark);
}
