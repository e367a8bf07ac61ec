/** The pattern of user names, wherever they come from: an orchestrator, a command, the configuration. */
export const userNamePattern = /^[A-Za-z0-9][A-Za-z0-9._@|:-]{0,127}$/;
export const teamNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const workspaceSlug = /^[a-z0-9][a-z0-9\-_.]{0,62}$/;

/** Marks that people and editors add to copies; group 1 is the name of the original. */
const copyPatterns = [
  /^(.+)\.(?:bak|backup|orig|old|save|sav|copy|tmp)\d?$/is,
  /^(.+)~$/s,
  /^(.+)\.~\d+~$/s,
  /^#(.+)#$/s,
  /^(.+)\.sw[a-px]$/is,
  /^(.+) (?:- )?copy$/is,
];
/** Copies of copies of copies. */
const maxLevels = 3;

/** Finds the possible original names of a file that looks like a copy; empty if it does not. */
export function findOriginalNames(name: string): string[] {
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
