/** Lets so many have a turn at a time; the others wait in the order they came. What is returned ends the turn. */
export function createVerifyTurns(atOnce: number): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let running = 0;

  function endTurn(): void {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }

  return async function takeTurn() {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    return endTurn;
  };
}
