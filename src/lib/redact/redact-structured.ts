import { isSecretName, maxLineLength, redactedMark, redactLine } from './redact-line.ts';

/** A group in braces or brackets, or the whole file. */
interface Group {
  /** Whether everything in it is a credential. */
  readonly isSecret: boolean;
  readonly hasKeys: boolean;
  /** The parts of the last key. */
  key: string[];
  isKeyNext: boolean;
  /** Whether the key says that its value is a credential. */
  isSecretValue: boolean;
  /** The previous text, which may be an option that the next text belongs to. */
  before: string;
}

/** Groups whose values are passed to a process or a server as they are. */
const secretGroup = /^(?:env|environment|(?:http|request|extra)?[-_]?headers|env[-_]?vars)$/i;
/** Values that only name a variable or an input. */
const referencePattern = /^(?:[A-Za-z]+ )?\$(?:\{(?:(?:env|input):)?[\w.-]+\}|[A-Z_][A-Z0-9_]*)$/;
const optionPattern = /^--?[\w-]+$/;
/** Short options whose value is a credential. */
const secretOption = /^-k$/;
const assignmentPattern = /^(-{0,2}[\w.-]+)=/;

/** Tokens. An alternative that is not closed runs to the end of the text, so that it is read once. */
const tokenPatterns = {
  json: /"[^"\\]*(?:\\.[^"\\]*)*"?|\/\/[^\n]*|\/\*[^*]*(?:\*(?!\/)[^*]*)*(?:\*\/)?|[{}[\]:,\n]|[^\s"{}[\]:,/]+|\//gs,
  toml: /"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:""")?|'''[^']*(?:'(?!'')[^']*)*(?:''')?|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\n]*'?|#[^\n]*|[{}[\]=,\n]|[^\s"'{}[\]=,#]+/gs,
};

/**
 * Redacts a settings file in JSON, with or without comments, or in TOML: values of variables and headers, values with
 * secret names, options of commands, parts of URLs. Everything else stays where it is.
 */
export function redactStructured(text: string, format: 'json' | 'toml'): string {
  const isToml = format === 'toml';
  const groups: Group[] = [createGroup(false, isToml)];
  const currentGroup = (): Group => groups.at(-1) as Group;
  let isLineStart = true;
  let header: string[] | undefined;

  function openGroup(sign: string): string {
    if (isToml && groups.length === 1 && isLineStart) header = [];
    else if (header === undefined) groups.push(createGroup(isInsideSecret(currentGroup()), sign === '{'));
    return sign;
  }

  function closeGroup(sign: string): string {
    if (header === undefined && groups.length > 1) groups.pop();
    return sign;
  }

  function endLine(): void {
    if (header !== undefined) groups.splice(0, groups.length, createGroup(header.some(isSecretKey), true));
    header = undefined;
    if (isToml && groups.length === 1) startKey(currentGroup());
  }

  function redactPart(part: string): string {
    if (part === '{' || part === '[') return openGroup(part);
    if (part === '}' || part === ']') return closeGroup(part);
    if (part === '\n') endLine();
    else if (part === ',') startKey(currentGroup());
    else if (part === ':' || part === '=') endKey(currentGroup());
    else if (/^(?:\/[/*]|#)/.test(part)) return redactComment(part);
    else if (header !== undefined) return addKeys(header, part);
    else if (currentGroup().isKeyNext) return addKeys(currentGroup().key, part);
    else return redactValue(part, currentGroup());
    return part;
  }

  return text.replace(tokenPatterns[format], (part) => {
    const changed = redactPart(part);
    isLineStart = part === '\n';
    return changed;
  });
}

const createGroup = (isSecret: boolean, hasKeys: boolean): Group => ({
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
const isInsideSecret = ({ isSecret, isSecretValue }: Group): boolean => isSecret || isSecretValue;
/** A key never has more parts. */
const maxKeyParts = 100;

/** Keys hold no credentials, but a malformed file may have one in their place. */
function addKeys(keys: string[], part: string): string {
  if (keys.length < maxKeyParts) keys.push(...splitKey(part).slice(0, maxKeyParts));
  return redactPlainPart(part, unquotePart(part));
}

/** Splits a key. A quoted key is one name; a plain one may be several, separated by dots. */
function splitKey(part: string): string[] {
  return /^["']/.test(part) ? [unquotePart(part)] : part.split('.').filter((name) => name !== '');
}

function redactValue(part: string, group: Group): string {
  const { before, key } = group;
  const content = unquotePart(part);
  const isText = content !== part;
  group.before = isText ? content : '';
  const isGiven =
    isInsideSecret(group) || (optionPattern.test(before) && (isSecretName(before) || secretOption.test(before)));
  if (isGiven) return isHarmless(content, isText) ? part : replaceContent(part, redactedMark);
  // The address of a proxy may come without its protocol.
  if (/proxy$/i.test(key.at(-1) ?? '') && /^[^/]*@/.test(content)) return replaceContent(part, redactedMark);
  const name = assignmentPattern.exec(content)?.[1];
  if (name !== undefined && isSecretName(name)) return replaceContent(part, `${name}=${redactedMark}`);
  return redactPlainPart(part, content);
}

function redactPlainPart(part: string, content: string): string {
  if (content.length > maxLineLength) return replaceContent(part, redactedMark);
  const plain = content.split('\n').map(redactLine).join('\n');
  return plain === content ? part : replaceContent(part, plain);
}

function isHarmless(content: string, isText: boolean): boolean {
  if (!isText) return /^(?:true|false|null)$/.test(content);
  return content === '' || (content.length <= maxLineLength && referencePattern.test(content));
}

/** Replaces the content but keeps the number of lines, so that other line numbers stay. */
function replaceContent(part: string, content: string): string {
  const quote = findQuote(part) || '"';
  const lines = part.split('\n').length - content.split('\n').length;
  return `${quote}${content}${'\n'.repeat(Math.max(0, lines))}${quote}`;
}

const findQuote = (part: string): string => /^(?:"""|'''|"|')/.exec(part)?.[0] ?? '';

function unquotePart(part: string): string {
  const quote = findQuote(part);
  if (quote === '') return part;
  const isEnded = part.length >= 2 * quote.length && part.endsWith(quote);
  return part.slice(quote.length, isEnded ? -quote.length : undefined);
}

/** Redacts a comment: a setting that is commented out still holds its secret. */
function redactComment(remark: string): string {
  if (/["=@]/.test(remark) || remark.length > maxLineLength) {
    const end = remark.startsWith('/*') ? '*/' : '';
    const start = remark.startsWith('#') ? '#' : remark.slice(0, 2);
    return `${start} ${redactedMark}${'\n'.repeat(remark.split('\n').length - 1)}${end && ` ${end}`}`;
  }
  return redactLine(remark);
}

/** Tokens. An alternative that is not closed runs to the end of the text, so that it is read once. */
const xmlTokenPattern =
  /<!--[^-]*(?:-(?!->)[^-]*)*(?:-->)?|<!\[CDATA\[[^\]]*(?:\](?!\]>)[^\]]*)*(?:\]\]>)?|<(?:[^<>"']|"[^"]*"?|'[^']*'?)*>?|[^<]+/g;
const attributePattern = /(?<![\w:.-])([\w:.-]+)(\s*=\s*)("[^"]*"?|'[^']*'?|[^\s"'<>]+)/g;
/** Elements that hold a user name, which belongs to the password. */
const secretElement = /^(?:user-?name|login)$/i;

/** Redacts settings in XML: variables, and elements and attributes with secret names. Line numbers stay. */
export function redactXml(text: string): string {
  /** The name of the open element whose content is a credential, and how many of that name are open. */
  let secret: string | undefined;
  let depth = 0;

  function redactTag(tag: string): string {
    const [, end = '', name = ''] = /^<(\/?)([\w:.-]*)/.exec(tag) ?? [];
    const shown = redactAttributes(tag, name === 'env' || secret !== undefined || namesSecretValue(tag));
    if (end === '' && !tag.endsWith('/>')) {
      if (secret === undefined && (isSecretXmlName(name) || namesSecretValue(tag))) secret = name;
      if (name === secret) depth++;
    } else if (end !== '' && name === secret && --depth === 0) secret = undefined;
    return shown;
  }

  return text.replace(xmlTokenPattern, (part) => {
    if (part.startsWith('<!--')) return redactXmlComment(part);
    if (part.startsWith('<') && !part.startsWith('<![')) return redactTag(part);
    return secret === undefined ? redactLines(part) : markLines(part);
  });
}

const namingAttribute = /^(?:name|key|id)$/i;
const isSecretXmlName = (name: string): boolean => isSecretName(name) || secretElement.test(name);
const stripQuotes = (text: string): string => text.replace(/^["']|["']$/g, '');

/** Whether an attribute names the element, such that its value is a credential. */
function namesSecretValue(tag: string): boolean {
  return [...tag.matchAll(attributePattern)].some(
    ([, key = '', , value = '']) => namingAttribute.test(key) && isSecretXmlName(stripQuotes(value)),
  );
}

function redactAttributes(tag: string, hasSecretValue: boolean): string {
  return tag.replace(attributePattern, (_, key: string, sign: string, value: string) => {
    const isGiven = (isSecretXmlName(key) && !namingAttribute.test(key)) || (hasSecretValue && /^value$/i.test(key));
    return `${key}${sign}${isGiven ? `"${markLines(value)}"` : redactLines(value)}`;
  });
}

function redactLines(text: string): string {
  return text
    .split('\n')
    .map((line) => (line.length > maxLineLength ? redactedMark : redactLine(line)))
    .join('\n');
}

/** Replaces a text but keeps its number of lines. */
function markLines(text: string): string {
  return text.trim() === '' ? text : redactedMark + '\n'.repeat(text.split('\n').length - 1);
}

/** Redacts a comment: a setting that is commented out still holds its secret. */
function redactXmlComment(remark: string): string {
  return /["'=@<]/.test(remark) || remark.length > maxLineLength
    ? `<!-- ${markLines(remark)} -->`
    : redactLines(remark);
}
