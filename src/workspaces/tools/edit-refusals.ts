import { AmbitError } from '../../errors.ts';
import { type EditOutcome, maxReportedMatches, type TextEdit } from '../../lib/text/apply-edit.ts';
import { findNearestLines, maxSearchedCharacters } from '../../lib/text/nearest-lines.ts';
import { quotePath } from '../saferoot/saferoot-error.ts';

const maxLinesNamed = 10;

/** The error of an edit that was not made. `which` names it among several. */
export function editRefusedError(
  outcome: Exclude<EditOutcome, { kind: 'applied' }>,
  which: string,
  path: string,
  text: string,
  { oldText }: TextEdit,
): AmbitError {
  switch (outcome.kind) {
    case 'missing':
      return new AmbitError('EDIT_NO_MATCH', {
        what: `${which}: oldText is not in ${quotePath(path)}.${describeNearest(text, oldText)}`,
      });
    case 'ambiguous': {
      const { lines } = outcome;
      const count = lines.length < maxReportedMatches ? `${lines.length} times` : `${maxReportedMatches} times or more`;
      const named = lines.slice(0, maxLinesNamed).join(', ') + (lines.length > maxLinesNamed ? ', …' : '');
      return new AmbitError('EDIT_AMBIGUOUS', {
        what: `${which}: oldText is in ${quotePath(path)} ${count}, on lines ${named}.`,
      });
    }
    case 'not-empty':
      return new AmbitError('REQUEST_INVALID', {
        what: `${which}: oldText is empty, but ${quotePath(path)} is not.`,
        hint: 'Give the text to replace; to replace the whole file, give "content" instead of "edits".',
      });
    case 'too-many':
      return new AmbitError('REQUEST_INVALID', {
        what: `${which}: oldText is in ${quotePath(path)} too many times to replace them all.`,
        hint: 'Give more of the text around it.',
      });
    case 'too-large':
      return new AmbitError('FILE_TOO_LARGE', {
        what: `${which}: ${quotePath(path)} would become larger than any file that may be written here.`,
        hint: 'Write less, or replace fewer places.',
      });
  }
}

function describeNearest(text: string, oldText: string): string {
  const near = findNearestLines(text, oldText);
  if (near.length === 0) return text.length > maxSearchedCharacters ? '' : ' Nothing like it is there.';
  const found = near.map(({ line, has, sought }) =>
    has === sought
      ? `line ${line} has ${JSON.stringify(has)}`
      : `line ${line} has ${JSON.stringify(has)} where oldText has ${JSON.stringify(sought)}`,
  );
  return ` Nearest: ${found.join('; ')}.`;
}

export function notTextError(path: string): AmbitError {
  return new AmbitError('FILE_WRONG_KIND', {
    what: `${quotePath(path)} is not a text file, so no text in it can be replaced.`,
    hint: 'Give "content" to replace it whole, or leave it.',
  });
}

export function fileChangedError(path: string, actual: string | undefined): AmbitError {
  const now = actual === undefined ? 'it is not there any more' : `its sha256 is ${actual} now`;
  return new AmbitError('FILE_CHANGED', { what: `${quotePath(path)} is not as expected: ${now}.` });
}

export function tooLargeToEditError(path: string, bytes: number, maxBytes: number): AmbitError {
  return new AmbitError('FILE_TOO_LARGE', {
    what: `${quotePath(path)} has ${bytes} bytes; files of up to ${maxBytes} are edited.`,
    hint: 'Give "content" to replace it with something smaller, or write the new part to a file of its own.',
  });
}

export function halfCharacterError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'The text has half a character (a lone surrogate), which no file can hold.',
    hint: 'Write the character whole.',
  });
}

export function changeMissingError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'Either "content" or "edits" is needed, and not both.',
    hint: 'Give "edits": [{"oldText": …, "newText": …}] to change parts of the file, or "content" to write all of it.',
  });
}

export function sameTextError(which: string): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `${which}: oldText and newText are the same.`,
    hint: 'Say what it should become, or leave this edit out.',
  });
}

export function danglingLinkError(path: string): AmbitError {
  return new AmbitError('FILE_EXISTS', {
    what: `${quotePath(path)} is a link that leads nowhere, so nothing can be written there.`,
    hint: 'Delete it first with session_delete_file, or choose another name.',
  });
}
