/** Endings that people and editors give to copies; the first part is the name of what was copied. */
const copyPatterns = [
  /^(.+)\.(?:bak|backup|orig|old|save|sav|copy|tmp)\d?$/is,
  /^(.+)~$/s,
  /^(.+)\.~\d+~$/s,
  /^#(.+)#$/s,
  /^(.+)\.sw[a-px]$/is,
  /^(.+) (?:- )?copy$/is,
];

/** Copies of copies. */
const maxLevels = 3;
/** What a user may be called, wherever the name comes from: an orchestrator, a command, the configuration. */
export const userName = /^[A-Za-z0-9][A-Za-z0-9._@|:-]{0,127}$/;
export const teamName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** The names of what a file may be a copy of, by its own name; none where it looks like no copy. */
export function originalsOf(name: string): string[] {
  const found: string[] = [];
  let level = [name];
  for (let count = 0; count < maxLevels; count++) {
    level = level.flatMap(stripCopyMarks);
    found.push(...level);
  }
  return found;
}

function stripCopyMarks(name: string): string[] {
  const original = copyPatterns.map((copy) => copy.exec(name)?.[1]).find((each) => each !== undefined);
  if (original === undefined) return [];
  // Vim puts a dot before the name, unless it has one.
  return /\.sw[a-px]$/i.test(name) && /^\../.test(original) ? [original, original.slice(1)] : [original];
}
