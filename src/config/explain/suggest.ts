/** Counts the edits (insert, delete, replace, swap neighbours) between two short words. */
function countEdits(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, before[j - 2]! + 1);
      next.push(best);
    }
    before = row;
    row = next;
  }
  return row[b.length]!;
}

const maxWordLength = 40;

/** Finds words that are few edits away, the nearest first. */
export function findNearest(word: string, candidates: readonly string[], max: number): string[] {
  if (word.length === 0 || word.length > maxWordLength) return [];
  const lower = word.toLowerCase();
  const allowed = Math.max(1, Math.floor(word.length / 3));
  return candidates
    .filter((candidate) => Math.abs(candidate.length - word.length) <= allowed)
    .map((candidate) => ({ candidate, edits: countEdits(lower, candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= allowed && edits < candidate.length)
    .sort((a, b) => a.edits - b.edits)
    .slice(0, max)
    .map(({ candidate }) => candidate);
}

/** Finds the word that was probably meant: one few edits away, or one that begins or ends the same. */
export function findClosest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length === 0 || word.length > maxWordLength) return undefined;
  const [nearest] = findNearest(word, candidates, 1);
  if (nearest !== undefined) return nearest;
  const lower = word.toLowerCase();
  const alike = candidates.filter((candidate) => {
    const other = candidate.toLowerCase();
    return (word.length >= 3 && other.startsWith(lower)) || (candidate.length >= 4 && lower.endsWith(other));
  });
  return alike.length === 1 ? alike[0] : undefined;
}

/** Writes `; did you mean "…"?`, or nothing when no candidate is close. */
export function suggestClosest(word: string, candidates: readonly string[], suffix = ''): string {
  const meant = findClosest(word, candidates);
  return meant === undefined ? '' : `; did you mean "${meant}${suffix}"?`;
}
