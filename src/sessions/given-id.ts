/** An id that whoever opens a session may give it; ids of our own have 128 random bits. It proves nothing. */
export function isGivenId(id: string): boolean {
  return /^[a-z0-9][a-z0-9-]{7,63}$/.test(id);
}
