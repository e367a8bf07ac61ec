import { age } from './trees.js';

/** Returns how many kilograms these trees bear in a year. A tree bears the most from its tenth year on. */
export function crop(trees) {
  return trees.reduce((sum, tree) => sum + 5 * Math.min(age(tree), 10), 0);
}
