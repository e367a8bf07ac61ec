/** Formats a number with its noun: `1 session`, `2 sessions`, `2 entries`. */
export function formatCount(count: number, singular: string, plural = `${singular}s`): string {
  return `${count} ${count === 1 ? singular : plural}`;
}
