import { lstatSync } from 'node:fs';
import { type Admit, asPath } from './check-access.ts';
import { at, type Handle } from './platform/platform-fs.ts';
import { namesIn } from './read-names.ts';
import { SafeRootError } from './saferoot-error.ts';

/** Git takes a folder for a repository, whatever it is called, when it holds such names, and runs what its `config` says. */
const head = 'head';
const rest: readonly (readonly string[])[] = [['commondir'], ['objects', 'refs']];
const parts: ReadonlySet<string> = new Set([head, ...rest.flat()]);

/** How many more names may be read, all folders on a way together: everybody waits for it. */
export interface NamesBudget {
  left: number;
}

export const mostNames = 5000;

/**
 * Refuses a change to something in a folder, when the folder is a repository or would become one. It is then judged as if
 * it lay in `.git`. The folder is held, and nothing may come between this and the change.
 */
export function assertNoRepository(
  admit: Admit | undefined,
  folder: Handle,
  inside: readonly string[],
  name: string,
  budget: NamesBudget = { left: mostNames },
): void {
  if (admit === undefined) return;
  const why = isRepository(folder)
    ? 'lies in a git repository, which sessions may not change'
    : isPart(name)
      ? whyNoPart(folder, name, budget)
      : undefined;
  if (why === undefined || admit('write', [...inside, '.git', name], undefined) === undefined) return;
  throw new SafeRootError('NOT_ADMITTED', { what: why, inside: asPath([...inside, name]) });
}

/** By names alone: what they stand for can be written later. */
export function isRepository(folder: Handle): boolean {
  const has = (name: string) => lstatSync(at(folder, name), { throwIfNoEntry: false }) !== undefined;
  return has('HEAD') && rest.some((names) => names.every(has));
}

/** In whatever case: a file system that makes no difference may come later. */
function whyNoPart(folder: Handle, name: string, budget: NamesBudget): string | undefined {
  const present = new Set([folded(name)]);
  for (const each of namesIn(folder)) {
    if (--budget.left < 0)
      return 'is a name that git repositories are made of, in a folder with too many names to tell';
    const text = folded(each.name.toString());
    if (parts.has(text)) present.add(text);
  }
  const isWhole = present.has(head) && rest.some((names) => names.every((each) => present.has(each)));
  return isWhole ? 'would make its folder a git repository, and git would run what is configured there' : undefined;
}

const isPart = (name: string): boolean => parts.has(folded(name));

/** What some file systems, or git for their sake, leave out of a name or take for the same. */
function folded(name: string): string {
  return name
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toLowerCase()
    .replace(/:.*$/s, '')
    .replace(/(?<![. ])[. ]+$/, '');
}
