import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { type Command, jsonFlag, onlyWord, text } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';

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
    const words = notes(diff);
    if (words.length > 0) process.stderr.write(words.map((line) => `ambit: ${line}\n`).join(''));
    if (invocation.flags['json'] === true || invocation.flags['stat'] === true) {
      print(invocation, diff, () => shown(diff));
    } else process.stdout.write(process.stdout.isTTY ? forTerminal(diff.patch) : diff.patch);
    return 0;
  },
};

function notes({ files, shortened, uncommitted }: FolderDiff): string[] {
  return [
    ...(files.length === 0 ? ['The session has changed nothing that is not merged.'] : []),
    ...(uncommitted ? ['The session started from the last commit; the workspace held changes beside it.'] : []),
    ...(shortened ? ['The diff is too long to be shown whole; see --stat.'] : []),
  ];
}

function shown({ files }: FolderDiff): string {
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
