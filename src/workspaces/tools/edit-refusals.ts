import { AmbitError } from '../../errors.ts';
import { type EditOutcome, maxReportedMatches, type TextEdit } from '../../lib/text/apply-edit.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type MarkerRefusal, maxBlocks } from '../../lib/text/existing-code.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { findNearestLines } from '../../lib/text/nearest-lines.ts';
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
        what: `${which}: oldText is not in ${quotePath(path)}.${describeNearest(text, oldText, 'oldText')}`,
      });
    case 'ambiguous': {
      const { lines } = outcome;
      const count = lines.length < maxReportedMatches ? `${lines.length} times` : `${maxReportedMatches} times or more`;
      return new AmbitError('EDIT_AMBIGUOUS', {
        what: `${which}: oldText is in ${quotePath(path)} ${count}, on lines ${nameLines(lines)}.`,
      });
    }
    case 'not-empty':
      return new AmbitError('REQUEST_INVALID', {
        what: `${which}: oldText is empty, but ${quotePath(path)} is not.`,
        hint: 'Pass the text to replace. To replace the whole file, pass "content" instead of "edits".',
      });
    case 'too-many':
      return new AmbitError('REQUEST_INVALID', {
        what: `${which}: oldText is in ${quotePath(path)} too many times to replace them all.`,
        hint: 'Include more of the surrounding text.',
      });
    case 'too-large':
      return new AmbitError('FILE_TOO_LARGE', {
        what: `${which}: ${quotePath(path)} would become larger than allowed.`,
        hint: 'Write less, or replace fewer occurrences.',
      });
  }
}

function nameLines(lines: readonly number[]): string {
  return lines.slice(0, maxLinesNamed).join(', ') + (lines.length > maxLinesNamed ? ', …' : '');
}

/** Shows the lines of the file that are most similar to `sought`, which stands in the argument `name`. */
function describeNearest(text: string, sought: string, name: string): string {
  const { lines, isComplete } = findNearestLines(text, sought);
  if (lines.length === 0) return isComplete ? ' The file has no similar text.' : '';
  const found = lines.map(({ line, has, sought: other, whitespace }) => {
    const there = `line ${line} has ${quoteLine(has)}`;
    if (whitespace === undefined) return has === other ? there : `${there} where ${name} has ${quoteLine(other)}`;
    const { column } = whitespace;
    const difference = `${describeSpaces(whitespace.has)}, ${name} has ${describeSpaces(whitespace.sought)}`;
    return `${there} where ${name} has ${quoteLine(other)} (only whitespace differs: at column ${column} the file has ${difference})`;
  });
  return ` Nearest: ${found.join('; ')}.`;
}

/** Quotes a line as JSON, as it can be copied into an argument. Characters that cannot be seen are escaped. */
function quoteLine(line: string): string {
  return escapeControls(JSON.stringify(line)).replace(
    /[^\P{Zs} ]/gu,
    (space) => `\\u${space.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const spaceNames: Readonly<Record<string, string>> = { ' ': 'space', '\t': 'tab', '\u00a0': 'no-break space' };
const maxSpaceRuns = 4;

function describeSpaces(run: string): string {
  if (run === '') return 'nothing';
  const groups = run.match(/(.)\1*/gsu) as string[];
  const named = groups.slice(0, maxSpaceRuns).map((group) => {
    const [first = ''] = group;
    const name = spaceNames[first] ?? `character U+${first.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    return formatCount(group.length, name);
  });
  return named.join(' and ') + (groups.length > maxSpaceRuns ? ' and more' : '');
}

/** A model that follows this advice without need would overwrite the file with its markers. */
const literalHint = 'Only if such comments are to stand in the file themselves, pass "literal": true.';

/** The error of a content with markers that does not fit the file. */
export function mergeRefusedError(
  { kind, line, text: given, side, fileLines }: MarkerRefusal,
  path: string,
  text: string,
): AmbitError {
  const file = quotePath(path);
  const quoted = `Line ${line} of content, ${quoteLine(given.length > 100 ? `${given.slice(0, 100)}…` : given)},`;
  const [first = 0, second = 0] = fileLines;
  const rule = `A block between "existing code" markers must ${side} with a line that is in the file exactly once.`;
  const extend = side === 'start' ? 'Begin the block further up' : 'Continue the block further down';
  switch (kind) {
    case 'no-blocks':
      return new AmbitError('REQUEST_INVALID', {
        what: 'content has only "existing code" markers, so it changes nothing.',
        hint: `Between them, write the changed lines with the line of the file before and after them. ${literalHint}`,
      });
    case 'too-many-blocks':
      return new AmbitError('REQUEST_INVALID', {
        what: `content has more than ${maxBlocks} blocks between "existing code" markers.`,
        hint: `Make the change in several calls. ${literalHint}`,
      });
    case 'placeholder':
      return new AmbitError('REQUEST_INVALID', {
        what: `${quoted} seems to stand for lines of ${file}, which would be lost.`,
        hint: `To keep them, write a comment such as "// ... existing code ..." on a line of its own, or use "edits". ${literalHint}`,
      });
    case 'marker-in-file':
      return new AmbitError('EDIT_AMBIGUOUS', {
        what: `Line ${first} of ${file} is itself an "existing code" marker, so the markers in content are ambiguous.`,
        hint: `Use "edits". ${literalHint}`,
      });
    case 'anchor-missing':
      return new AmbitError('EDIT_NO_MATCH', {
        what: `${quoted} is not in ${file}. ${rule}${describeNearest(text, given, 'content')}`,
        hint: `${extend}, with a line copied exactly from the file, or use "edits". ${literalHint}`,
      });
    case 'anchor-repeated':
      return new AmbitError('EDIT_AMBIGUOUS', {
        what: `${quoted} is in ${file} several times, on lines ${nameLines(fileLines)}. ${rule}`,
        hint: `${extend}, with a line that occurs only once, or use "edits". ${literalHint}`,
      });
    case 'anchors-equal':
      return new AmbitError('EDIT_AMBIGUOUS', {
        what: `${quoted} is the first and the last line of a block, but ${file} has it only once, on line ${first}.`,
        hint: `Continue the block with the next line of the file, or use "edits". ${literalHint}`,
      });
    case 'out-of-order':
      return new AmbitError('EDIT_NO_MATCH', {
        what: `${quoted} is line ${first} of ${file}, but the part of content before it reaches to line ${second}.`,
        hint: `Write the blocks in the order of the file, without overlaps, or use "edits". ${literalHint}`,
      });
    case 'marker-missing': {
      const [where, edge] = side === 'start' ? ['before', 'start'] : ['after', 'end'];
      return new AmbitError('REQUEST_INVALID', {
        what: `There is no "existing code" marker ${where} line ${line} of content, so ${file} would ${edge} with it. Lines between ${first} and ${second} of the file would be lost.`,
        hint: `Add a marker ${where} it, or use "edits". To replace the whole file, pass its content without markers. ${literalHint}`,
      });
    }
  }
}

export function notTextError(path: string): AmbitError {
  return new AmbitError('FILE_WRONG_KIND', {
    what: `${quotePath(path)} is not a text file, so its text cannot be replaced.`,
    hint: 'Pass "content", without "existing code" markers, to replace the whole file.',
  });
}

export function fileChangedError(path: string, actual: string | undefined): AmbitError {
  const now = actual === undefined ? 'it no longer exists' : `its sha256 is now ${actual}`;
  return new AmbitError('FILE_CHANGED', { what: `${quotePath(path)} has changed: ${now}.` });
}

export function tooLargeToEditError(path: string, bytes: number, maxBytes: number): AmbitError {
  return new AmbitError('FILE_TOO_LARGE', {
    what: `${quotePath(path)} has ${bytes} bytes; only files of up to ${maxBytes} bytes can be edited.`,
    hint: 'Pass "content", without "existing code" markers, to replace it with something smaller, or write the new part to a separate file.',
  });
}

export function halfCharacterError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'The text contains half a character (a lone surrogate), which cannot be stored in a file.',
    hint: 'Send the complete character.',
  });
}

export function changeMissingError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'Exactly one of "content" and "edits" is needed.',
    hint: 'Pass "edits": [{"oldText": …, "newText": …}] to change parts of the file, or "content" to write the whole file.',
  });
}

export function sameTextError(which: string): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `${which}: oldText and newText are the same.`,
    hint: 'Change newText, or remove this edit.',
  });
}

export function danglingLinkError(path: string): AmbitError {
  return new AmbitError('FILE_EXISTS', {
    what: `${quotePath(path)} is a broken symbolic link, so nothing can be written there.`,
    hint: 'Delete it first with session_delete_file, or choose another name.',
  });
}
