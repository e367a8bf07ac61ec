/** How often this process has given something a name, in whatever folder: who looked before looks again. */
let changes = 0;

export function noteChange(): void {
  changes++;
}

export function changesSoFar(): number {
  return changes;
}
