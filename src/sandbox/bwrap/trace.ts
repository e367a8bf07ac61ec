import { lstatSync, readlinkSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import type { Shown } from '../common/confinement.ts';

/** A link on the way to what is shown, made again inside so that names mean there what they mean outside. */
export interface Link {
  readonly inside: string;
  readonly target: string;
}

export interface Traced {
  readonly shown: readonly Shown[];
  readonly links: readonly Link[];
}

const mostLinks = 40;
export const nothing: Traced = { shown: [], links: [] };

/** Where a path really leads, and each link it takes on the way there; nothing when it leads nowhere. */
export function trace(path: string): Traced {
  const links: Link[] = [];
  let real = '';
  let rest = path.split(sep).filter((name) => name !== '');
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    const next = `${real}/${name}`;
    const found = lstatSync(next, { throwIfNoEntry: false });
    if (found === undefined || links.length > mostLinks) return nothing;
    if (!found.isSymbolicLink()) {
      real = next;
      continue;
    }
    const target = readlinkSync(next);
    links.push({ inside: next, target });
    rest = [
      ...resolve(dirname(next), target)
        .split(sep)
        .filter((each) => each !== ''),
      ...rest,
    ];
    real = '';
  }
  return { shown: [{ real, inside: real }], links };
}

export function together(all: readonly Traced[]): Traced {
  return { shown: all.flatMap(({ shown }) => shown), links: all.flatMap(({ links }) => links) };
}
