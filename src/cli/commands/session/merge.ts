import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { type Command, jsonFlag, onlyWord, text, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';

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
    print(invocation, merge, () => shown(merge));
    return merge.fits ? 0 : 1;
  },
};

function shown({ files, dryRun, fits }: Merge): string {
  if (files.length === 0) return 'There is nothing to merge.';
  const rows = files.map(({ path, change, outcome, reason }) => [path, change, outcome, reason ?? '']);
  const end = dryRun ? (fits ? 'Nothing was changed: this was a dry run.' : 'This would be refused whole.') : undefined;
  return [
    table(['FILE', 'CHANGE', 'OUTCOME', 'WHY'], rows, { byEnd: ['FILE'] }),
    ...(end === undefined ? [] : [end]),
  ].join('\n');
}
