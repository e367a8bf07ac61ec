import { isSecretName, longestLine, redactedMark, withoutSecrets } from './redact-line.ts';

/** Each begins with what nothing else begins with, and takes what has no end to the end: a text is read once. */
const xmlParts =
  /<!--[^-]*(?:-(?!->)[^-]*)*(?:-->)?|<!\[CDATA\[[^\]]*(?:\](?!\]>)[^\]]*)*(?:\]\]>)?|<(?:[^<>"']|"[^"]*"?|'[^']*'?)*>?|[^<]+/g;

const attribute = /(?<![\w:.-])([\w:.-]+)(\s*=\s*)("[^"]*"?|'[^']*'?|[^\s"'<>]+)/g;

/** What a person is known by goes with the password. */
const secretElement = /^(?:user-?name|login)$/i;

const naming = /^(?:name|key|id)$/i;

const isSecret = (name: string): boolean => isSecretName(name) || secretElement.test(name);

const unquoted = (text: string): string => text.replace(/^["']|["']$/g, '');

/** A group in braces or brackets, or the whole file. */
interface Group {
  /** All that is in it is a credential. */
  readonly isSecret: boolean;
  readonly hasKeys: boolean;
  /** The parts of the key that was read last. */
  key: string[];
  isKeyNext: boolean;
  /** What the key says of its value. */
  isSecretValue: boolean;
  /** The text before, which may be an option that the next text belongs to. */
  before: string;
}

/** Groups of values that are given to a process or a server as they are. */
const secretGroup = /^(?:env|environment|(?:http|request|extra)?[-_]?headers|env[-_]?vars)$/i;
/** What only says where a value comes from. */
const reference = /^(?:[A-Za-z]+ )?\$(?:\{(?:(?:env|input):)?[\w.-]+\}|[A-Z_][A-Z0-9_]*)$/;
const option = /^--?[\w-]+$/;
/** Short options whose value is a credential. */
const secretOption = /^-k$/;
const assigned = /^(-{0,2}[\w.-]+)=/;

/** Each begins with what nothing else begins with, and takes what has no end to the end: a text is read once. */
const parts = {
  json: /"[^"\\]*(?:\\.[^"\\]*)*"?|\/\/[^\n]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*(?:\*\/)?|[{}[\]:,\n]|[^\s"{}[\]:,/]+|\//gs,
  toml: /"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:""")?|'''[^']*(?:'(?!'')[^']*)*(?:''')?|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\n]*'?|#[^\n]*|[{}[\]=,\n]|[^\s"'{}[\]=,#]+/gs,
};

/**
 * A file of settings in JSON, with comments or without, or in TOML, without the credentials in it: values of variables and
 * headers, values with such a name, options of commands, parts of addresses. All else stays in its place.
 */
export function redactStructured(text: string, format: 'json' | 'toml'): string {
  const isToml = format === 'toml';
  const groups: Group[] = [groupOf(false, isToml)];
  const here = (): Group => groups.at(-1) as Group;
  let isLineStart = true;
  let header: string[] | undefined;

  function open(sign: string): string {
    if (isToml && groups.length === 1 && isLineStart) header = [];
    else if (header === undefined) groups.push(groupOf(isSecretHere(here()), sign === '{'));
    return sign;
  }

  function close(sign: string): string {
    if (header === undefined && groups.length > 1) groups.pop();
    return sign;
  }

  function endLine(): void {
    if (header !== undefined) groups.splice(0, groups.length, groupOf(header.some(isSecretKey), true));
    header = undefined;
    if (isToml && groups.length === 1) startKey(here());
  }

  function change(part: string): string {
    if (part === '{' || part === '[') return open(part);
    if (part === '}' || part === ']') return close(part);
    if (part === '\n') endLine();
    else if (part === ',') startKey(here());
    else if (part === ':' || part === '=') endKey(here());
    else if (/^(?:\/[/*]|#)/.test(part)) return withoutRemark(part);
    else if (header !== undefined) return addKeys(header, part);
    else if (here().isKeyNext) return addKeys(here().key, part);
    else return changeValue(part, here());
    return part;
  }

  return text.replace(parts[format], (part) => {
    const changed = change(part);
    isLineStart = part === '\n';
    return changed;
  });
}

const groupOf = (isSecret: boolean, hasKeys: boolean): Group => ({
  isSecret,
  hasKeys,
  key: [],
  isKeyNext: hasKeys,
  isSecretValue: false,
  before: '',
});

function startKey(group: Group): void {
  group.key = [];
  group.isKeyNext = group.hasKeys;
  group.isSecretValue = group.isSecretValue && !group.hasKeys;
}

function endKey(group: Group): void {
  group.isKeyNext = false;
  group.isSecretValue = group.key.some(isSecretKey);
}

const isSecretKey = (key: string): boolean => secretGroup.test(key) || isSecretName(key);
const isSecretHere = ({ isSecret, isSecretValue }: Group): boolean => isSecret || isSecretValue;

/** No key has more parts. */
const mostParts = 100;

/** A key is no place for a credential; what is not written as it should be may have one there all the same. */
function addKeys(keys: string[], part: string): string {
  if (keys.length < mostParts) keys.push(...keysIn(part).slice(0, mostParts));
  return plainPart(part, contentOf(part));
}

/** A quoted key is one name; a plain one may be several with dots between them. */
function keysIn(part: string): string[] {
  return /^["']/.test(part) ? [contentOf(part)] : part.split('.').filter((name) => name !== '');
}

function changeValue(part: string, group: Group): string {
  const { before, key } = group;
  const content = contentOf(part);
  const isText = content !== part;
  group.before = isText ? content : '';
  const isGiven = isSecretHere(group) || (option.test(before) && (isSecretName(before) || secretOption.test(before)));
  if (isGiven) return isHarmless(content, isText) ? part : withMark(part, redactedMark);
  // The address of a proxy may come without its protocol.
  if (/proxy$/i.test(key.at(-1) ?? '') && /^[^/]*@/.test(content)) return withMark(part, redactedMark);
  const name = assigned.exec(content)?.[1];
  if (name !== undefined && isSecretName(name)) return withMark(part, `${name}=${redactedMark}`);
  return plainPart(part, content);
}

function plainPart(part: string, content: string): string {
  if (content.length > longestLine) return withMark(part, redactedMark);
  const plain = content.split('\n').map(withoutSecrets).join('\n');
  return plain === content ? part : withMark(part, plain);
}

function isHarmless(content: string, isText: boolean): boolean {
  if (!isText) return /^(?:true|false|null)$/.test(content);
  return content === '' || (content.length <= longestLine && reference.test(content));
}

/** As many lines as before, so that the numbers of the others stay. */
function withMark(part: string, content: string): string {
  const quote = quoteOf(part) || '"';
  const lines = part.split('\n').length - content.split('\n').length;
  return `${quote}${content}${'\n'.repeat(Math.max(0, lines))}${quote}`;
}

const quoteOf = (part: string): string => /^(?:"""|'''|"|')/.exec(part)?.[0] ?? '';

function contentOf(part: string): string {
  const quote = quoteOf(part);
  if (quote === '') return part;
  const isEnded = part.length >= 2 * quote.length && part.endsWith(quote);
  return part.slice(quote.length, isEnded ? -quote.length : undefined);
}

/** What is put aside for a while is a secret all the same. */
function withoutRemark(remark: string): string {
  if (/["=@]/.test(remark) || remark.length > longestLine) {
    const end = remark.startsWith('/*') ? '*/' : '';
    const start = remark.startsWith('#') ? '#' : remark.slice(0, 2);
    return `${start} ${redactedMark}${'\n'.repeat(remark.split('\n').length - 1)}${end && ` ${end}`}`;
  }
  return withoutSecrets(remark);
}

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

  return text.replace(xmlParts, (part) => {
    if (part.startsWith('<!--')) return redactXmlComment(part);
    if (part.startsWith('<') && !part.startsWith('<![')) return changeTag(part);
    return secret === undefined ? plain(part) : marked(part);
  });
}

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
function redactXmlComment(remark: string): string {
  return /["'=@<]/.test(remark) || remark.length > longestLine ? `<!-- ${marked(remark)} -->` : plain(remark);
}
