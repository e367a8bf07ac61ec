/** Returns the age of a tree in years. */
export function age(tree) {
  return new Date().getFullYear() - tree.planted;
}
