import type { Approvals } from '../approvals/approvals.ts';
import { pinsOf } from '../approvals/tool-pins.ts';
import type { Journal } from '../journal/journal.ts';
import type { Log } from '../log.ts';
import type { Vet } from '../upstreams/catalog/catalog.ts';
import type { Offer } from '../upstreams/catalog/offer.ts';

/**
 * Tools of a server that had to be approved are pinned when they are first listed. What differs afterwards is
 * withheld until someone approves it: a description is text that a model obeys.
 */
export interface Vetting {
  readonly vet: Vet;
  /** True, once, for a change of the approvals that is only what we have pinned ourselves. */
  pinnedJustNow(server: string): boolean;
}

export function createVetting(approvals: Approvals, journal: Journal, log: Log): Vetting {
  const told = new WeakMap<Offer, string>();
  const pinned = new Set<string>();

  const vet: Vet = async (server, offer) => {
    if (server.source === 'operator') return { tools: offer.tools, withheld: [] };
    const pins = pinsOf(offer.tools.map((text) => JSON.parse(text) as unknown));
    if (!approvals.hasPinnedTools(server.name)) {
      pinned.add(server.name);
      await approvals.pinTools(server, pins);
    }
    const withheld = approvals
      .toolsChanged(server, pins)
      .filter(({ kind }) => kind !== 'removed')
      .map(({ tool }) => tool);
    if (withheld.length === 0) return { tools: offer.tools, withheld };
    const names = withheld.join(', ');
    if (told.get(offer) !== names) {
      told.set(offer, names);
      log.warn('tools changed since approval and are withheld', {
        server: server.name,
        tools: names,
        hint: `look at them with "ambit server check ${server.name}", approve with "ambit server approve ${server.name}"`,
      });
      journal.record({ kind: 'gateway', event: 'tools-withheld', server: server.name, tools: names });
    }
    const hidden = new Set(withheld);
    const tools = offer.tools.filter((text) => !hidden.has((JSON.parse(text) as { name: string }).name));
    return { tools, withheld };
  };

  return { vet, pinnedJustNow: (server) => pinned.delete(server) };
}
