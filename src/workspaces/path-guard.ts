import { protectedNames, protectedPaths } from '../lib/fs/protected-paths.ts';
import { findRedaction, redactBytes } from '../lib/redact/redact-settings.ts';
import { foldName } from '../lib/text/fold-name.ts';
import { compileGlob, expandBraces, type Glob } from '../lib/text/glob.ts';
import { findOriginalNames } from '../lib/text/name-patterns.ts';
import type { OpenedFile } from './backends/backend.ts';
import { protectedPathError } from './backends/refusals.ts';
import { assertByteRange } from './saferoot/read.ts';

/**
 * Rules for paths of a workspace, as plain data that can be sent to another process. Patterns are globs relative to the
 * workspace. A pattern without a slash matches a name in any folder, and a rule for a folder holds for its entries.
 * Case and forms of accents do not matter. Copies by people and editors, such as `.env.bak`, are protected like their
 * originals.
 */
export interface PathRules {
  /** Neither readable nor writable. */
  readonly hidden: readonly string[];
  /** Readable, but not writable. */
  readonly kept: readonly string[];
  /** Open although a pattern above matches. */
  readonly open: readonly string[];
  /** Neither readable nor writable, unless `shown` matches. */
  readonly secret?: readonly string[];
  /** Exceptions from `secret`. They do not open `hidden` or `kept` paths, since a folder in those may have any name. */
  readonly shown?: readonly string[];
}

/** Keys, passwords and other secrets in working folders. */
const defaultSecrets: readonly string[] = [
  '.env',
  '.env.*',
  '.envrc',
  '*.pem',
  '*.key',
  '*.p12',
  '*.pfx',
  '*.jks',
  '*.keystore',
  '*.kdbx',
  'id_rsa*',
  'id_dsa*',
  'id_ecdsa*',
  'id_ed25519*',
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '**/.docker/config.json',
  '.dockercfg',
  '**/.config/gcloud',
  '**/.config/gh',
  '.pypirc',
  '.boto',
  '.s3cfg',
  '**/.cargo/credentials',
  '**/.cargo/credentials.toml',
  '**/.gem/credentials',
  '**/.terraform.d/credentials.tfrc.json',
  '.netrc',
  '_netrc',
  '.pgpass',
  '.git-credentials',
  '**/.git/credentials',
  '.htpasswd',
  '.vault-token',
  '.dev.vars',
  '.dev.vars.*',
  '**/.streamlit/secrets.toml',
  // A file of PHP's composer. In other folders it often holds texts.
  '/auth.json',
  '**/.composer/auth.json',
  '**/.config/composer/auth.json',
  '*.tfvars',
  '*.tfvars.json',
  '*.tfstate',
  '*.tfstate.*',
];

/** Templates without secrets, and public keys. */
const defaultShown: readonly string[] = ['.env', '.dev.vars']
  .flatMap((name) => ['example', 'sample', 'template', 'dist'].map((ending) => `${name}.${ending}`))
  .concat('*.pub');

/** The repository, and files that other programs run or obey. */
const defaultKept: readonly string[] = ['.git', ...protectedNames, ...protectedPaths.map((path) => `**/${path}`)];

export interface ConfiguredPaths {
  readonly hide: readonly string[];
  readonly keep: readonly string[];
  readonly open: readonly string[];
}

/** Creates the default rules, with the given patterns added. */
export function createPathRules({ hide = [], keep = [], open = [] }: Partial<ConfiguredPaths> = {}): PathRules {
  return {
    hidden: hide,
    secret: defaultSecrets,
    kept: [...defaultKept, ...keep],
    open,
    shown: defaultShown,
  };
}

export interface PathGuard {
  /** Returns the reason for a refusal, as the rest of a sentence about the path, or undefined. */
  refusal(access: 'read' | 'write', names: readonly string[]): string | undefined;
  /** Tells whether a rule of the operator opens the path. */
  isOpened(names: readonly string[]): boolean;
}

export const readOnlyReason = 'may be read by sessions, but not changed';

const HIDDEN = 1;
const KEPT = 2;
const OPEN = 4;
const SHOWN = 8;
const SECRET = 16;

interface PathRule {
  readonly bit: number;
  readonly glob: Glob;
  /** Matches a name in any folder, not a path. */
  readonly anywhere: boolean;
  /** Matches the last name of every path that the rule matches; undefined where that is unknown. */
  readonly last: Glob | undefined;
}

/** The rules that match a single name. */
interface NameVerdict {
  readonly bits: number;
  readonly forms: readonly string[];
  /** The path rules that may match a path with this last name. */
  readonly paths: readonly PathRule[];
  /** The names that it may be a copy of. */
  readonly originals: readonly Omit<NameVerdict, 'originals'>[];
}

const maxRemembered = 10_000;

/**
 * Decides by names alone, from the top folder down: a rule for a folder holds for all its entries, until a rule further
 * in opens them.
 */
export function createPathGuard(rules: PathRules): PathGuard {
  const all = [
    ...compileRules(rules.hidden, HIDDEN),
    ...compileRules(rules.secret ?? [], SECRET),
    ...compileRules(rules.kept, KEPT),
    ...compileRules(rules.open, OPEN),
    ...compileRules(rules.shown ?? [], SHOWN),
  ];
  const byName = all.filter(({ anywhere }) => anywhere);
  const byPath = all.filter(({ anywhere }) => !anywhere);
  const remembered = new Map<string, NameVerdict>();

  function judgeName(name: string): Omit<NameVerdict, 'originals'> {
    const forms = listSpellings(name);
    return {
      bits: matchRules(
        byName,
        forms.map((form) => [form]),
      ),
      forms,
      paths: byPath.filter(({ last }) => last === undefined || forms.some((form) => last.fits([form]))),
    };
  }

  function findNameVerdict(name: string): NameVerdict {
    const known = remembered.get(name);
    if (known !== undefined) return known;
    const verdict = { ...judgeName(name), originals: findOriginalNames(foldName(name)).map(judgeName) };
    if (remembered.size >= maxRemembered) remembered.clear();
    remembered.set(name, verdict);
    return verdict;
  }

  function judgePath(names: readonly string[]): number {
    let verdict = 0;
    let ways: string[][] = [[]];
    for (const name of names) {
      const { bits: own, forms, paths, originals } = findNameVerdict(name);
      let bits = own;
      for (const original of originals) bits |= findProtection(original, ways);
      if (byPath.length > 0) {
        if (ways.length === 1 && forms.length === 1) ways[0]?.push(forms[0] as string);
        else ways = ways.flatMap((way) => forms.map((form) => [...way, form])).slice(0, maxPaths);
        if (paths.length > 0) bits |= matchRules(paths, ways);
      }
      const closed = bits & (HIDDEN | KEPT | SECRET);
      if (closed !== 0) verdict = (verdict | closed) & ~OPEN;
      if (bits & OPEN) verdict = OPEN;
      if (bits & SHOWN) verdict &= ~SECRET;
    }
    return verdict;
  }

  return {
    refusal(access, names) {
      const verdict = judgePath(names);
      if (verdict & (HIDDEN | SECRET)) return 'is hidden from sessions';
      return verdict & KEPT && access === 'write' ? readOnlyReason : undefined;
    },
    isOpened: (names) => (judgePath(names) & OPEN) !== 0,
  };
}

/** Only unusual names have more than one spelling. */
const maxPaths = 16;

/** Returns the protection of a copy by the names of its originals. Those names cannot open it. */
function findProtection(
  { bits: own, forms, paths }: Omit<NameVerdict, 'originals'>,
  above: readonly (readonly string[])[],
): number {
  const ways = paths.length === 0 ? [] : above.flatMap((way) => forms.map((form) => [...way, form])).slice(0, maxPaths);
  const bits = own | (paths.length === 0 ? 0 : matchRules(paths, ways));
  return bits & (bits & SHOWN ? HIDDEN | KEPT : HIDDEN | KEPT | SECRET);
}

/** A rule that opens must match the plain spelling: an unusual one can only protect. */
function matchRules(rules: readonly PathRule[], ways: readonly (readonly string[])[]): number {
  let bits = 0;
  for (const { bit, glob } of rules) {
    if ((bits & bit) !== 0) continue;
    const opens = bit === OPEN || bit === SHOWN;
    if (opens ? ways.length === 1 && glob.fits(ways[0] as readonly string[]) : ways.some((way) => glob.fits(way))) {
      bits |= bit;
    }
  }
  return bits;
}

const compileRules = (patterns: readonly string[], bit: number): PathRule[] =>
  patterns
    .flatMap((pattern) => expandBraces(foldName(pattern)))
    .map((pattern) => ({
      bit,
      glob: compileGlob(pattern),
      anywhere: isSingleName(pattern),
      last: compileLastName(pattern),
    }));

function compileLastName(pattern: string): Glob | undefined {
  const last =
    pattern
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .at(-1) ?? '';
  return /^\*\*|[[\\]/.test(last) || pattern.includes('[') || last === '' ? undefined : compileGlob(last);
}

const isSingleName = (pattern: string): boolean => !pattern.replace(/^(?:\.\/)+|(?<!\/)\/+$/g, '').includes('/');

/** Lists the folded name, and its forms without trailing dots and spaces or without all after a colon. */
function listSpellings(name: string): readonly string[] {
  const plain = foldName(name);
  const bare = (text: string) => text.replace(/(?<![. ])[. ]+$/, '');
  const forms = new Set([plain, bare(plain), bare(plain.split(':')[0] as string)]);
  forms.delete('');
  return forms.size === 0 ? [plain] : [...forms];
}

/** Larger settings files are not searched for credentials, and not shown. */
const maxShownBytes = 1024 * 1024;

/**
 * Shows settings without the values of their credentials. A file that sessions may change is shown as it is, else they
 * would write back the redacted text. The file may also be known by other names, such as that of a link to it.
 */
export async function hideCredentials(
  file: OpenedFile,
  asked: string,
  guard: PathGuard,
  otherNames: readonly (readonly string[])[] = [],
): Promise<OpenedFile> {
  const { facts } = file;
  const protectedNames = [facts.path.split('/'), ...otherNames].filter(
    (names) => guard.refusal('write', names) !== undefined,
  );
  const redact = protectedNames.map(findRedaction).find((each) => each !== undefined);
  const reason = otherNames.map((names) => guard.refusal('read', names)).find((why) => why !== undefined);
  if (redact === undefined && reason === undefined) return file;
  try {
    if (redact === undefined || reason !== undefined) throw protectedPathError(asked, reason ?? '', facts.path);
    if (facts.bytes > maxShownBytes)
      throw protectedPathError(asked, 'is too large to be shown without credentials', facts.path);
    const content = redactBytes(await file.read(0, maxShownBytes), redact);
    return {
      facts: { ...facts, bytes: content.length },
      async read(offset, length) {
        assertByteRange(offset, length);
        return content.subarray(offset, offset + length);
      },
      async close() {},
    };
  } finally {
    await file.close();
  }
}
