import { age } from './trees.js';

/** Returns the text for the label of a tree. */
export function label(tree) {
  return `${tree.kind}, ${age(tree)} years`;
}
