import type { AnswerOf } from '../../entrances/control/routes.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Command, jsonFlag, readFlag, requirePositional, UsageError } from '../command.ts';
import { askConfirmation, yesFlag } from '../io/ask.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

type DiffAnswer = AnswerOf<'GET /api/v1/sessions/{id}/diff'>;

export const sessionDiff: Command = {
  operands: 'ID',
  help: 'what a session changed in its own folder',
  flags: {
    stat: { type: 'boolean', help: 'the files, and how many lines of each' },
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    json: jsonFlag,
  },
  async run(invocation) {
    const diff = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/diff', {
      id: requirePositional(invocation, 'ID'),
      query: { workspace: readFlag(invocation, 'workspace') },
    });
    const warnings = diffNotes(diff);
    if (warnings.length > 0) process.stderr.write(warnings.map((line) => `ambit: ${line}\n`).join(''));
    if (invocation.flags['json'] === true || invocation.flags['stat'] === true) {
      printData(invocation, diff, () => renderDiffStat(diff));
    } else process.stdout.write(process.stdout.isTTY ? escapePatch(diff.patch) : diff.patch);
  },
};

type MergeAnswer = AnswerOf<'POST /api/v1/sessions/{id}/merge'>;

export const sessionMerge: Command = {
  operands: 'ID',
  help: 'bring what a session changed into its workspace',
  flags: {
    'dry-run': { type: 'boolean', help: 'only say what would be done' },
    prefer: { type: 'string', value: 'SIDE', help: 'session or workspace: whose changes win conflicts' },
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
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
      },
    });
    printData(invocation, merge, () => renderMerge(merge));
    return merge.fits ? 0 : 1;
  },
};

export const sessionDiscard: Command = {
  operands: 'ID',
  help: 'remove the folder an ended session left',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    if (!(await askConfirmation(invocation, `Remove the folder of session ${id}, with all that was not merged?`)))
      return 1;
    const discarded = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}/folder', {
      id,
      query: { workspace: readFlag(invocation, 'workspace') },
    });
    printData(invocation, discarded, () => `The folder of session ${discarded.sessionId.slice(0, 8)} is gone.`);
    return 0;
  },
};

function renderMerge({ files, dryRun, fits }: MergeAnswer): string {
  if (files.length === 0) return 'There is nothing to merge.';
  const rows = files.map(({ path, change, outcome, reason }) => [path, change, outcome, reason ?? '']);
  const end = dryRun ? (fits ? 'Nothing was changed: this was a dry run.' : 'This would be refused whole.') : undefined;
  return [
    renderTable(['FILE', 'CHANGE', 'OUTCOME', 'WHY'], rows, { truncateStart: ['FILE'] }),
    ...(end === undefined ? [] : [end]),
  ].join('\n');
}

function diffNotes({ files, shortened, uncommitted }: DiffAnswer): string[] {
  return [
    ...(files.length === 0 ? ['The session has changed nothing that is not merged.'] : []),
    ...(uncommitted ? ['The session started from the last commit; the workspace held changes beside it.'] : []),
    ...(shortened ? ['The diff is too long to be shown whole; see --stat.'] : []),
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

/** Escapes control characters that a session wrote, so that they cannot steer the terminal. */
function escapePatch(patch: string): string {
  return patch
    .split('\n')
    .map((line) => line.split('\t').map(escapeControls).join('\t'))
    .join('\n');
}
