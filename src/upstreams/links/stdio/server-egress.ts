import type { Journal } from '../../../observability/journal/journal.ts';
import type { Confinement } from '../../../sandbox/common/confinement.ts';
import { openEgress } from '../../../sandbox/egress/open-egress.ts';
import { createRefusalRecord } from '../../../sandbox/egress/refusal-record.ts';
import type { EgressProxy } from '../../../sandbox/runner.ts';

interface EgressOwner {
  readonly server: string;
  readonly sessionId: string | undefined;
}

export interface ServerEgress {
  readonly egressProxy: EgressProxy;
  close(): Promise<void>;
}

const maxNamed = 20;

/** Opens the egress proxy of one process; undefined where it may reach nothing. Refusals go to the journal. */
export async function openServerEgress(
  { network: allowed = [] }: Pick<Confinement, 'network'>,
  folder: string,
  { server, sessionId }: EgressOwner,
  journal: Journal,
): Promise<ServerEgress | undefined> {
  if (allowed.length === 0) return undefined;
  const fields = { kind: 'egress' as const, sessionId, server };
  const refusals = createRefusalRecord(({ to, reason, times }) =>
    journal.record({ ...fields, event: 'refused', to, detail: reason, times }),
  );
  const egress = await openEgress({ allowed, folder, onRefused: refusals.add });
  let closed = false;
  return {
    egressProxy: { socket: egress.socket, allowed },
    async close() {
      if (closed) return;
      closed = true;
      await egress.close();
      refusals.flush();
      const counts = [...egress.allowed];
      const total = counts.reduce((sum, [, times]) => sum + times, 0);
      if (total + refusals.count === 0) return;
      const named = counts.slice(0, maxNamed).map(([to, times]) => `${to} ${times}`);
      const more = counts.length > maxNamed ? ['…'] : [];
      const to = [...named, ...more].join(', ');
      journal.record({ ...fields, event: 'closed', allowed: total, refused: refusals.count, to });
    },
  };
}
