import type { ErrorCode } from 'yaml';

/** The parser's own sentences quote the source, which may hold secrets; these do not. */
const byCode: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'an alias takes neither anchor nor tag',
  BAD_ALIAS: 'an anchor or alias without a usable name',
  BAD_COLLECTION_TYPE: 'this tag does not fit here',
  BAD_DIRECTIVE: 'this % directive is not understood',
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; write \\\\ for a backslash',
  BAD_INDENT: 'the indentation does not fit the lines before, or a closing } or ] is missing',
  BAD_PROP_ORDER: 'anchors and tags stand after the indicator',
  BAD_SCALAR_START: 'a value that starts with this character needs quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " or "- " on the same line; a value that holds one needs quotes',
  BLOCK_IN_FLOW: 'an indented block cannot stand inside { } or [ ]',
  DUPLICATE_KEY: 'duplicate key',
  IMPOSSIBLE: 'this cannot be read',
  KEY_OVER_1024_CHARS: 'a key longer than 1024 characters',
  MISSING_CHAR: 'a character is missing here: a quote, bracket, comma, colon or blank',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line, or a ":" is missing',
  MULTIPLE_ANCHORS: 'at most one anchor',
  MULTIPLE_DOCS: 'one document only',
  MULTIPLE_TAGS: 'at most one tag',
  NON_STRING_KEY: 'a key must be plain text',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAB_AS_INDENT: 'tabs cannot indent; use blanks',
  TAG_RESOLVE_FAILED: 'this tag is not known; only plain values are read',
  UNEXPECTED_TOKEN: 'this does not belong here',
};

const byStart: readonly (readonly [RegExp, string])[] = [
  [/^Missing closing/, 'a closing quote is missing'],
  [/^Missing , (?:or : )?between/, 'a comma or a colon is missing between the entries'],
  [/^Implicit map keys need/, 'a ":" is missing after the key'],
];

export function yamlWords(code: ErrorCode, message: string): string {
  const words = byStart.find(([start]) => start.test(message))?.[1] ?? byCode[code];
  return `not valid YAML: ${words}`;
}
