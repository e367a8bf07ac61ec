import type { AnswerOf } from '../../entrances/control/routes.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Command, type Flag, jsonFlag, readFlag, requirePositional, UsageError } from '../command.ts';
import { askConfirmation, yesFlag } from '../io/ask.ts';
import { controlRequest } from '../io/control-request.ts';
import { paintText, printData, renderTable, type Style } from '../io/output.ts';

const workspaceFlag: Flag = {
  type: 'string',
  value: 'NAME',
  help: 'Workspace of the folder, if the session has several',
};

type DiffAnswer = AnswerOf<'GET /api/v1/sessions/{id}/diff'>;

export const sessionDiff: Command = {
  operands: 'ID',
  help: 'Show what a session changed in its own folder',
  flags: {
    stat: { type: 'boolean', help: 'List the changed files instead of the diff' },
    path: { type: 'string', value: 'PATH', help: 'Show only this file, or the files in this folder' },
    workspace: workspaceFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const diff = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/diff', {
      id: requirePositional(invocation, 'ID'),
      query: { workspace: readFlag(invocation, 'workspace'), path: readFlag(invocation, 'path') },
    });
    const warnings = diffNotes(diff);
    if (warnings.length > 0) process.stderr.write(warnings.map((line) => `ambit: ${line}\n`).join(''));
    if (invocation.flags['json'] === true || invocation.flags['stat'] === true) {
      printData(invocation, diff, () => renderDiffStat(diff));
    } else process.stdout.write(process.stdout.isTTY ? paintPatch(diff.patch) : diff.patch);
  },
};

type MergeAnswer = AnswerOf<'POST /api/v1/sessions/{id}/merge'>;

export const sessionMerge: Command = {
  operands: 'ID',
  help: 'Merge the changes of a session into its workspace',
  flags: {
    'dry-run': { type: 'boolean', help: 'Show what would be merged, and change nothing' },
    prefer: {
      type: 'string',
      value: 'SIDE',
      help: 'Version of a conflicting file to use: session or workspace',
      choices: ['session', 'workspace'],
    },
    'changes-hash': {
      type: 'string',
      value: 'HASH',
      help: 'Merge only the changes that "session diff --json" showed with this changesHash',
    },
    workspace: workspaceFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const prefer = readFlag(invocation, 'prefer');
    if (prefer !== undefined && prefer !== 'session' && prefer !== 'workspace') {
      throw new UsageError('--prefer takes "session" or "workspace"');
    }
    const merge = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/merge', {
      id,
      body: {
        workspace: readFlag(invocation, 'workspace'),
        dryRun: invocation.flags['dry-run'] === true ? true : undefined,
        prefer,
        changesHash: readFlag(invocation, 'changes-hash'),
      },
    });
    printData(invocation, merge, () => renderMerge(merge));
    return merge.fits ? 0 : 1;
  },
};

export const sessionDiscard: Command = {
  operands: 'ID',
  help: 'Delete the folder that an ended session left behind',
  flags: {
    workspace: workspaceFlag,
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    if (
      !(await askConfirmation(invocation, `Delete the folder of session ${id}, with everything that was not merged?`))
    )
      return 1;
    const discarded = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}/folder', {
      id,
      query: { workspace: readFlag(invocation, 'workspace') },
    });
    printData(invocation, discarded, () => `Deleted the folder of session ${discarded.sessionId.slice(0, 8)}.`);
    return 0;
  },
};

function renderMerge({ files, dryRun, fits }: MergeAnswer): string {
  if (files.length === 0) return 'Nothing to merge.';
  const rows = files.map(({ path, change, outcome, reason }) => [path, change, outcome, reason ?? '']);
  const end = dryRun
    ? fits
      ? 'Dry run: nothing was changed.'
      : 'Dry run: the merge would be refused because of conflicts.'
    : undefined;
  return [
    renderTable(['FILE', 'CHANGE', 'OUTCOME', 'WHY'], rows, { truncateStart: ['FILE'], states: ['OUTCOME'] }),
    ...(end === undefined ? [] : [end]),
  ].join('\n');
}

function diffNotes({ files, shortened, uncommitted, unnamed }: DiffAnswer): string[] {
  return [
    ...(files.length === 0 ? ['No unmerged changes.'] : []),
    ...(uncommitted
      ? ['The session started from the last commit, without the uncommitted changes of the workspace.']
      : []),
    ...(unnamed === 0 ? [] : [`${unnamed} names are not UTF-8. Those files are not shown and cannot be merged.`]),
    ...(shortened ? ['The diff is too long and was cut. List all files with --stat.'] : []),
  ];
}

function renderDiffStat({ files }: DiffAnswer): string {
  const count = (lines: number | null) => (lines === null ? '-' : String(lines));
  const rows = files.map(({ path, status, added, removed, oldMode, newMode, binary }) => {
    const mode = oldMode !== null && newMode !== null && oldMode !== newMode ? `${oldMode} → ${newMode}` : '';
    return [path, status, count(added), count(removed), binary ? 'binary or large' : mode];
  });
  return renderTable(['FILE', 'CHANGE', '+', '-', 'NOTE'], rows, { truncateStart: ['FILE'] });
}

/** Colours a diff for a terminal, and escapes control characters that a session wrote. */
function paintPatch(patch: string): string {
  return patch
    .split('\n')
    .map((line) => {
      const style = findLineStyle(line);
      const parts = line.split('\t');
      return parts.map((part) => (style === undefined ? escapeControls(part) : paintText(style, part))).join('\t');
    })
    .join('\n');
}

function findLineStyle(line: string): Style | undefined {
  if (/^(?:diff |\+\+\+ |--- )/.test(line)) return 'bold';
  if (line.startsWith('@@')) return 'cyan';
  return line.startsWith('+') ? 'green' : line.startsWith('-') ? 'red' : undefined;
}
