import type { LinePlace } from './read-lines.ts';

/**
 * Where lines of large files begin, as reads found out, so that whoever reads on does not count from the beginning
 * again. A place holds for one version of a file only.
 */
export interface LinePlaces {
  /** The last known place that is not behind the line. */
  before(file: string, line: number): LinePlace | undefined;
  keep(file: string, place: LinePlace): void;
}

const mostFiles = 64;
const mostPlaces = 32;

export function createLinePlaces(): LinePlaces {
  const files = new Map<string, readonly LinePlace[]>();
  return {
    before: (file, line) =>
      files
        .get(file)
        ?.filter((place) => place.line <= line)
        .reduce<LinePlace | undefined>((a, b) => (a === undefined || b.line > a.line ? b : a), undefined),
    keep(file, place) {
      const others = (files.get(file) ?? []).filter(({ line }) => line !== place.line);
      // Set anew, so that the file read longest ago is the first to go.
      files.delete(file);
      files.set(file, [...others, place].slice(-mostPlaces));
      for (const oldest of files.keys()) {
        if (files.size <= mostFiles) break;
        files.delete(oldest);
      }
    },
  };
}
