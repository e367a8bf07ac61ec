const aliasSpec = /^npm:(?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+(?:@(.*))?$/is;

/** Versions, ranges and tags. A path, a URL or a repository has a slash, a colon, an @ or a #. */
const registrySpec = /^[0-9A-Za-z^~<>=*|&\s][0-9A-Za-z.+*^~<>=|&\s_-]*$/;

const archiveName = /\.(?:tgz|tar\.gz|tar)$/i;
export const versionPattern = /^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?$/;
export const installHint = 'If you trust the package, install it yourself and use its program as the command.';
/** Something in a package that does not come from the registry. */
export class OffenderError extends Error {}

const maxWordLength = 120;

/** Throws. `what` completes the sentence "it brings …". */
export function refuseOffender(what: string): never {
  throw new OffenderError(what);
}

/** Makes a word of a package safe to show: printable, short, and without the password of a URL. */
export function showWord(text: unknown): string {
  const plain = String(text)
    .replace(/\/\/[^/\s]*@/g, '//')
    .replace(/[^\x20-\x7e]/g, '?');
  return plain.length > maxWordLength ? `${plain.slice(0, maxWordLength)}…` : plain;
}

/** Whether npm looks for this specifier in a registry, and nowhere else. */
export function isRegistrySpec(spec: unknown): boolean {
  if (typeof spec !== 'string') return false;
  const [whole, version = ''] = aliasSpec.exec(spec) ?? [undefined, spec];
  if (whole === undefined && /^npm:/i.test(spec)) return false;
  return version === '' || (registrySpec.test(version) && !archiveName.test(version.trim()));
}
