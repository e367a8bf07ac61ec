import { dirname } from 'node:path';
import { followLinks, linksAt } from '../../../lib/fs/follow-links.ts';
import { gitLinksIn, guardedLinksIn } from '../../../lib/fs/guarded-links.ts';
import {
  createOrdersSource,
  type GitOrder,
  gitFolderOf,
  gitFoldersOf,
  gitOrdersOf,
  OrdersUnknown,
} from '../../../lib/git/git-orders.ts';
import { NamesUnknown } from './followed-names.ts';
import type { NotedLooks } from './recorded-reads.ts';

/** Something that is not to be changed because of what leads to it. */
export interface LedPlace {
  /** Why not, as the rest of a sentence. */
  readonly reason: string;
  /** The names of the settings that it is taken for. */
  readonly known?: readonly string[];
}

const byGit: LedPlace = { reason: 'the configuration of git names it' };
const byLink = 'a protected link leads to it';

/** For one repository. It is looked at in one go, while others wait. */
const bounds = { bytes: 512 * 1024, named: 1000 };

type Places = Map<string, LedPlace>;

/** Places by their absolute paths. */
export interface LedPlaces {
  readonly places: ReadonlyMap<string, LedPlace>;
  /** Set where nobody knows which places there are: why nothing is to be changed then. */
  readonly unknown?: string;
}

/** Where the configuration of the repository in a folder leads, and the links among what git follows there. */
export function placesOfRepository(folder: string, looks: NotedLooks): LedPlaces {
  const places = new Map<string, LedPlace>();
  if (looks.lookAt(`${folder}/.git`) === undefined) return { places };
  try {
    const source = createOrdersSource(looks.read, bounds);
    const gitFolder = gitFolderOf(folder, source.read);
    for (const order of gitOrdersOf(folder, gitFolder, source)) addOrder(order, places, looks);
    for (const each of gitFoldersOf(gitFolder, source.read)) {
      for (const link of gitLinksIn(each, looks))
        addLed(link, { reason: byLink, known: link.split('/').slice(-2) }, places, looks);
    }
    return { places };
  } catch (error) {
    if (!(error instanceof OrdersUnknown)) throw error;
    return { places, unknown: `the configuration of git ${error.what}` };
  }
}

/** The same for each repository around a folder. */
export function placesOfRepositoriesAbove(folder: string, looks: NotedLooks): LedPlaces {
  const above = dirname(folder);
  if (above === folder) return { places: new Map() };
  const [here, further] = [placesOfRepository(above, looks), placesOfRepositoriesAbove(above, looks)];
  const unknown = here.unknown ?? further.unknown;
  return { places: new Map([...here.places, ...further.places]), ...(unknown === undefined ? {} : { unknown }) };
}

/** Where links lead that have a guarded name in a folder, or lie in what has one. */
export function placesOfLinks(
  folder: string,
  isFree: (names: readonly string[]) => boolean,
  looks: NotedLooks,
): LedPlaces {
  const places = new Map<string, LedPlace>();
  try {
    for (const link of guardedLinksIn(folder, isFree, looks))
      addLed(link, { reason: byLink, known: link.split('/').slice(-2) }, places, looks);
    return { places };
  } catch (error) {
    if (!(error instanceof NamesUnknown)) throw error;
    return { places, unknown: error.message };
  }
}

function addOrder({ place, kind }: GitOrder, places: Places, looks: NotedLooks): void {
  const isPart = kind === 'path' || kind === 'word';
  if (!isPart) {
    const why = kind === 'settings' ? { ...byGit, known: ['.git', 'config'] } : byGit;
    const led = addLed(place, why, places, looks);
    if (kind !== 'folder' || led === undefined) return;
    for (const link of linksAt(led, looks)) addLed(link, byGit, places, looks);
    return;
  }
  const way = followLinks(place, looks.lookAt);
  if (way === undefined) return;
  // A word may be anything. One with a slash is kept free for the file it may name.
  const counts = way.missing === undefined ? looks.lookAt(way.place)?.isFile() : kind === 'path';
  if (counts) for (const each of [way.place, ...way.links]) places.set(each, byGit);
}

/** What is missing on the way could be made as a link, so it is not made at all. */
function addLed(path: string, why: LedPlace, places: Places, looks: NotedLooks): string | undefined {
  const way = followLinks(path, looks.lookAt);
  if (way === undefined) return undefined;
  for (const each of [way.place, ...way.links]) places.set(each, why);
  if (way.missing !== undefined) places.set(way.missing, why);
  return way.place;
}
