/** Lets so many in at a time, and so much of them; in the order in which they came. */
export interface Gate {
  /** Resolves to what is called on the way out. */
  enter(weight: number): Promise<() => void>;
}

export function createGate({ most, mostWeight }: { readonly most: number; readonly mostWeight: number }): Gate {
  const queue: { readonly weight: number; readonly go: () => void }[] = [];
  let inside = 0;
  let weightInside = 0;

  /** What is too heavy by itself goes alone. */
  const fits = (weight: number) => inside === 0 || (inside < most && weightInside + weight <= mostWeight);

  function admit(): void {
    for (let [next] = queue; next !== undefined && fits(next.weight); [next] = queue) {
      queue.shift();
      inside++;
      weightInside += next.weight;
      next.go();
    }
  }

  return {
    async enter(weight) {
      await new Promise<void>((go) => {
        queue.push({ weight, go });
        admit();
      });
      return () => {
        inside--;
        weightInside -= weight;
        admit();
      };
    },
  };
}
