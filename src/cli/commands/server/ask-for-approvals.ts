import type { Log } from '../../../observability/log/log.ts';
import type { Invocation } from '../../command.ts';
import { isTerminal } from '../../io/ask.ts';
import { serverApprove } from './approve.ts';
import { declaredServers } from './declared-servers.ts';

/** Before the gateway opens: a person at the terminal is asked about what is not approved; elsewhere it is only named. */
export async function askForApprovals(invocation: Invocation, log: Log): Promise<void> {
  const { servers, approvals } = await declaredServers(invocation);
  try {
    for (const server of servers.values()) {
      if (approvals.check(server).state === 'approved') continue;
      if (isTerminal()) await serverApprove.run({ ...invocation, words: [server.name], flags: globalsOf(invocation) });
      else log.warn('server not approved', { server: server.name, hint: `ambit server approve ${server.name}` });
    }
  } finally {
    approvals.close();
  }
}

function globalsOf({ flags }: Invocation): Invocation['flags'] {
  return { config: flags['config'], 'data-dir': flags['data-dir'] };
}
