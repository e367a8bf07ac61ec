import type { AnswerOf } from '../../entrances/control/routes.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Command, jsonFlag, onlyWord, text, UsageFault } from '../command.ts';
import { agreed, yesFlag } from '../io/ask.ts';
import { controlRequest } from '../io/control-request.ts';
import { print, table } from '../io/output.ts';

type FolderDiff = AnswerOf<'GET /api/v1/sessions/{id}/diff'>;

export const sessionDiff: Command = {
  path: ['session', 'diff'],
  operands: 'ID',
  help: 'what a session changed in its own folder',
  flags: {
    stat: { type: 'boolean', help: 'the files, and how many lines of each' },
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    json: jsonFlag,
  },
  async run(invocation) {
    const diff = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/diff', {
      id: onlyWord(invocation, 'ID'),
      query: { workspace: text(invocation, 'workspace') },
    });
    const words = diffNotes(diff);
    if (words.length > 0) process.stderr.write(words.map((line) => `ambit: ${line}\n`).join(''));
    if (invocation.flags['json'] === true || invocation.flags['stat'] === true) {
      print(invocation, diff, () => showDiffStat(diff));
    } else process.stdout.write(process.stdout.isTTY ? forTerminal(diff.patch) : diff.patch);
    return 0;
  },
};

type Merge = AnswerOf<'POST /api/v1/sessions/{id}/merge'>;

export const sessionMerge: Command = {
  path: ['session', 'merge'],
  operands: 'ID',
  help: 'bring what a session changed into its workspace',
  flags: {
    'dry-run': { type: 'boolean', help: 'only say what would be done' },
    prefer: { type: 'string', value: 'session|workspace', help: 'whose version counts where both changed the same' },
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    json: jsonFlag,
  },
  async run(invocation) {
    const id = onlyWord(invocation, 'ID');
    const prefer = text(invocation, 'prefer');
    if (prefer !== undefined && prefer !== 'session' && prefer !== 'workspace') {
      throw new UsageFault('--prefer takes "session" or "workspace"');
    }
    const merge = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/merge', {
      id,
      body: {
        workspace: text(invocation, 'workspace'),
        dryRun: invocation.flags['dry-run'] === true ? true : undefined,
        prefer,
      },
    });
    print(invocation, merge, () => showMerge(merge));
    return merge.fits ? 0 : 1;
  },
};

export const sessionDiscard: Command = {
  path: ['session', 'discard'],
  operands: 'ID',
  help: 'remove the folder an ended session left',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const word = onlyWord(invocation, 'ID');
    if (!(await agreed(invocation, `Remove the folder of session ${word}, with all that was not merged?`))) return 1;
    const discarded = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}/folder', {
      id: word,
      query: { workspace: text(invocation, 'workspace') },
    });
    print(invocation, discarded, () => `The folder of session ${discarded.sessionId.slice(0, 8)} is gone.`);
    return 0;
  },
};

function showMerge({ files, dryRun, fits }: Merge): string {
  if (files.length === 0) return 'There is nothing to merge.';
  const rows = files.map(({ path, change, outcome, reason }) => [path, change, outcome, reason ?? '']);
  const end = dryRun ? (fits ? 'Nothing was changed: this was a dry run.' : 'This would be refused whole.') : undefined;
  return [
    table(['FILE', 'CHANGE', 'OUTCOME', 'WHY'], rows, { byEnd: ['FILE'] }),
    ...(end === undefined ? [] : [end]),
  ].join('\n');
}

function diffNotes({ files, shortened, uncommitted }: FolderDiff): string[] {
  return [
    ...(files.length === 0 ? ['The session has changed nothing that is not merged.'] : []),
    ...(uncommitted ? ['The session started from the last commit; the workspace held changes beside it.'] : []),
    ...(shortened ? ['The diff is too long to be shown whole; see --stat.'] : []),
  ];
}

function showDiffStat({ files }: FolderDiff): string {
  const count = (lines: number | null) => (lines === null ? '-' : String(lines));
  const rows = files.map(({ path, status, added, removed, oldMode, newMode, binary }) => {
    const mode = oldMode !== null && newMode !== null && oldMode !== newMode ? `${oldMode} → ${newMode}` : '';
    return [path, status, count(added), count(removed), binary ? 'binary or large' : mode];
  });
  return table(['FILE', 'CHANGE', '+', '-', 'NOTE'], rows, { byEnd: ['FILE'] });
}

/** What a session wrote must not steer the terminal; a pipe gets it as it is, for git. */
function forTerminal(patch: string): string {
  return patch
    .split('\n')
    .map((line) => line.split('\t').map(escapeControls).join('\t'))
    .join('\n');
}
