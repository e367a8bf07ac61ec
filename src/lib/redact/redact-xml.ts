import { isSecretName, longestLine, redactedMark, withoutSecrets } from './without-secrets.ts';

/** Each begins with what nothing else begins with, and takes what has no end to the end: a text is read once. */
const parts =
  /<!--[^-]*(?:-(?!->)[^-]*)*(?:-->)?|<!\[CDATA\[[^\]]*(?:\](?!\]>)[^\]]*)*(?:\]\]>)?|<(?:[^<>"']|"[^"]*"?|'[^']*'?)*>?|[^<]+/g;
const attribute = /(?<![\w:.-])([\w:.-]+)(\s*=\s*)("[^"]*"?|'[^']*'?|[^\s"'<>]+)/g;
/** What a person is known by goes with the password. */
const secretElement = /^(?:user-?name|login)$/i;

/** Settings in XML without the credentials in them: variables, and what has such a name. All else stays in its line. */
export function redactXml(text: string): string {
  /** The element whose content is a credential, while we are in it, and how many of its name are open. */
  let secret: string | undefined;
  let depth = 0;

  function changeTag(tag: string): string {
    const [, end = '', name = ''] = /^<(\/?)([\w:.-]*)/.exec(tag) ?? [];
    const shown = withoutAttributes(tag, name === 'env' || secret !== undefined || isEntry(tag));
    if (end === '' && !tag.endsWith('/>')) {
      if (secret === undefined && (isSecret(name) || isEntry(tag))) secret = name;
      if (name === secret) depth++;
    } else if (end !== '' && name === secret && --depth === 0) secret = undefined;
    return shown;
  }

  return text.replace(parts, (part) => {
    if (part.startsWith('<!--')) return withoutRemark(part);
    if (part.startsWith('<') && !part.startsWith('<![')) return changeTag(part);
    return secret === undefined ? plain(part) : marked(part);
  });
}

const naming = /^(?:name|key|id)$/i;

/** Whether one attribute says that the value in another, or in the element, is a credential. */
function isEntry(tag: string): boolean {
  return [...tag.matchAll(attribute)].some(
    ([, key = '', , value = '']) => naming.test(key) && isSecret(unquoted(value)),
  );
}

function withoutAttributes(tag: string, hasSecretValue: boolean): string {
  return tag.replace(attribute, (_, key: string, sign: string, value: string) => {
    const isGiven = (isSecret(key) && !naming.test(key)) || (hasSecretValue && /^value$/i.test(key));
    return `${key}${sign}${isGiven ? `"${marked(value)}"` : plain(value)}`;
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
