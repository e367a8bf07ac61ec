const alias = /^npm:(?:@[a-z0-9._~-]+\/)?[a-z0-9._~-]+(?:@(.*))?$/is;
/** Versions, ranges and tags. What could be a path, a URL or a repository has a slash, a colon, an @ or a #. */
const registryWords = /^[0-9A-Za-z^~<>=*|&\s][0-9A-Za-z.+*^~<>=|&\s_-]*$/;
const archive = /\.(?:tgz|tar\.gz|tar)$/i;

/** Whether npm looks for a dependency with this specifier in a registry, and nowhere else. */
export function isRegistrySpec(spec: unknown): boolean {
  if (typeof spec !== 'string') return false;
  const [whole, version = ''] = alias.exec(spec) ?? [undefined, spec];
  if (whole === undefined && /^npm:/i.test(spec)) return false;
  return version === '' || (registryWords.test(version) && !archive.test(version.trim()));
}
