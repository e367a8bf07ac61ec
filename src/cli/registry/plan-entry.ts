import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { isDotPath } from '../../config/load/configured-paths.ts';
import { whyVariableRefused } from '../../context/for-tools/refused-variables.ts';
import { isAmbitError } from '../../errors.ts';
import { isPrivateAddress } from '../../lib/net/private-addresses.ts';
import { readPackageCommand } from '../../sandbox/packages/package-command.ts';
import type {
  RegistryArgument,
  RegistryInput,
  RegistryPackage,
  RegistryRemote,
  RegistryServer,
} from './ask-registry.ts';

/** The ways to use a server that Ambit can write into a configuration. */
export const offerKinds = ['npm', 'pypi', 'oci', 'remote'] as const;
export type OfferKind = (typeof offerKinds)[number];

/** Values that the person gives for an entry. */
export interface GivenValues {
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Arguments for the program of the package. */
  readonly args: readonly string[];
  /** The folder of the configuration, which relative arguments start from. */
  readonly folder: string;
}

/** A variable, header or argument that the person has to set. */
export interface MissingInput {
  readonly name: string;
  readonly description: string;
  readonly isSecret: boolean;
}

/** A server of a registry in the form that it has in the configuration. */
export interface EntryPlan {
  readonly kind: OfferKind;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly missing: readonly MissingInput[];
  /** Names of variables and headers that may be set too. */
  readonly optional: readonly string[];
  readonly notes: readonly string[];
}

/** One way to use a server. One that cannot be used has a reason instead of a plan. */
export interface ServerOffer {
  /** The kind, or the word of the registry for one that is not known here. */
  readonly kind: string;
  readonly plan?: EntryPlan;
  readonly problem?: string;
}

const noValues: GivenValues = { env: {}, headers: {}, args: [], folder: '/' };

/** Lists the ways to use a server: its packages in the order of the entry, then its addresses. */
export function listOffers(server: RegistryServer, given: GivenValues = noValues): ServerOffer[] {
  return [
    ...(server.packages ?? []).map((each) => tryPlan(each.registryType, () => planPackage(each, given))),
    ...(server.remotes ?? []).map((each) => tryPlan('remote', () => planRemote(each, given))),
  ];
}

/** A part of an entry that is not taken over. The message is a clause about the entry. */
class EntryProblem extends Error {}

function tryPlan(kind: string, plan: () => EntryPlan): ServerOffer {
  try {
    return { kind, plan: plan() };
  } catch (error) {
    if (!(error instanceof EntryProblem)) throw error;
    return { kind, problem: error.message };
  }
}

interface PackageRunner {
  readonly kind: OfferKind;
  /** The only registry that the package may come from. */
  readonly source: RegExp;
  readonly identifier: RegExp;
  readonly version: RegExp;
  /** Arguments of the runner that say nothing new. All others are refused: they can decide what runs. */
  readonly harmless: readonly string[];
  readonly command: (pinned: RegistryPackage, variables: readonly string[]) => readonly [string, ...string[]];
}

const imageName = /^[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]{1,5})?(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$/;
const imageTag = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/** A version as PEP 440 defines it. */
const pythonVersion =
  /^(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*(?:[-.]?(?:a|b|c|rc|alpha|beta|pre|preview|post|rev|r|dev)[-.]?[0-9]*){0,3}(?:\+[a-z0-9]+(?:[-.][a-z0-9]+)*)?$/i;

const runners: Readonly<Record<string, PackageRunner>> = {
  npm: {
    kind: 'npm',
    source: /^https:\/\/registry\.npmjs\.org\/?$/,
    identifier: /^(?:@[a-z0-9~_][a-z0-9._~-]*\/)?[a-z0-9~_][a-z0-9._~-]*$/i,
    version: /^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?(?<!\.(?:tgz|tar|tar\.gz))$/i,
    harmless: ['-y', '--yes'],
    command: ({ identifier, version }) => ['npx', '-y', `${identifier}@${version}`],
  },
  pypi: {
    kind: 'pypi',
    source: /^https:\/\/pypi\.org(?:\/simple)?\/?$/,
    identifier: /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/,
    version: pythonVersion,
    harmless: [],
    command: ({ identifier, version }) => ['uvx', `${identifier}==${version}`],
  },
  oci: {
    kind: 'oci',
    source: /^https:\/\/(?:docker\.io|registry-1\.docker\.io|ghcr\.io|quay\.io)\/?$/,
    identifier: /./,
    version: imageTag,
    harmless: ['-i', '--interactive', '--rm'],
    command: (pinned, variables) => [
      ...(['docker', 'run', '-i', '--rm'] as const),
      ...variables.flatMap((name) => ['-e', name]),
      pinnedImage(pinned),
    ],
  },
};

function planPackage(published: RegistryPackage, given: GivenValues): EntryPlan {
  const offered = published.registryType === 'oci' ? moveVariables(published) : published;
  const { registryType, registryBaseUrl, identifier, version, transport, runtimeHint } = offered;
  const runner = Object.hasOwn(runners, registryType) ? runners[registryType] : undefined;
  if (runner === undefined) throw new EntryProblem(`packages of the kind "${registryType}" are not supported`);
  if (transport.type !== 'stdio') {
    throw new EntryProblem(`its package speaks "${transport.type}"; only packages that speak stdio are supported`);
  }
  if (registryBaseUrl && !runner.source.test(registryBaseUrl)) {
    throw new EntryProblem('its package comes from a package registry that is not the usual one');
  }
  if (!runner.identifier.test(identifier)) throw new EntryProblem(`"${identifier}" is not the name of a package`);
  if (runner.kind !== 'oci' && (version == null || !runner.version.test(version))) {
    throw new EntryProblem('it names no exact version of its package');
  }
  assertNoRunnerArguments(offered, runner, runtimeHint ?? undefined);
  if (Object.keys(given.headers).length > 0)
    throw new EntryProblem('a header goes with an address, not with a package');
  const { values: env, missing, optional } = collectInputs(offered.environmentVariables ?? [], given.env, 'variable');
  const [command, ...before] = runner.command(offered, [...Object.keys(env), ...missing.map(({ name }) => name)]);
  const own = collectArguments(offered.packageArguments ?? [], given.args);
  // The program in a container sees other files.
  if (runner.kind !== 'oci') {
    for (const arg of own) assertNoLocalFile(arg, given.folder);
    assertInstallable(command, before, offered);
  }
  return {
    kind: runner.kind,
    entry: {
      command,
      args: [...before, ...own, ...given.args],
      ...(Object.keys(env).length === 0 ? {} : { env }),
      // A sandbox has no access to the container engine.
      ...(runner.kind === 'oci' ? { trust: 'direct' } : {}),
    },
    missing,
    optional,
    notes:
      runner.kind !== 'oci'
        ? []
        : [
            'It runs in a container of Docker, so only direct sessions can use it.',
            ...(identifier.includes('@sha256:') ? [] : ['The owner of an image can change what its tag refers to.']),
          ],
  };
}

/**
 * Refuses a package that the gateway would not install itself. Its runner would then start in the workspace, where it
 * reads settings and files that an agent may have written. npm takes the version "1.0.0-a.tgz" for such a file.
 */
function assertInstallable(command: string, args: readonly string[], { identifier, version }: RegistryPackage): void {
  try {
    const read = readPackageCommand(command, args);
    if (read?.name === identifier && read.wanted === version) return;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
  }
  throw new EntryProblem(`"${identifier}" in version ${version} is not the name of a package that can be installed`);
}

/** The image with a digest or a tag. An image without one may be another one tomorrow. */
function pinnedImage({ identifier, version, registryBaseUrl }: RegistryPackage): string {
  const [, name = '', tag, digest] = /^([^@]+?)(?::([^:/@]+))?(?:@(sha256:[0-9a-f]{64}))?$/.exec(identifier) ?? [];
  const wanted = tag ?? version ?? undefined;
  if (!imageName.test(name)) throw new EntryProblem(`"${identifier}" is not the name of an image`);
  if (namesLocalRegistry(name)) throw new EntryProblem('its image comes from a registry on a private network');
  const isExact = digest !== undefined || (wanted !== undefined && wanted !== 'latest');
  if (!isExact || (wanted !== undefined && !imageTag.test(wanted))) {
    throw new EntryProblem('it names no exact version of its image');
  }
  // Old entries name the host of the image beside it.
  const host = registryBaseUrl ? new URL(registryBaseUrl).host : '';
  const full = host === '' || host.endsWith('docker.io') || name.startsWith(`${host}/`) ? name : `${host}/${name}`;
  return `${full}${wanted === undefined ? '' : `:${wanted}`}${digest === undefined ? '' : `@${digest}`}`;
}

/** Whether the image is fetched from this machine or a private network. Docker does so without TLS from "localhost". */
function namesLocalRegistry(image: string): boolean {
  const [first = '', ...rest] = image.split('/');
  const isHost = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost');
  return isHost && (!URL.canParse(`https://${first}`) || isLocalHost(new URL(`https://${first}`).hostname));
}

/** Many images get their variables with arguments for Docker, as `-e NAME=VALUE`. They become variables of the server. */
function moveVariables(offered: RegistryPackage): RegistryPackage {
  const moved: RegistryInput[] = [];
  const rest = (offered.runtimeArguments ?? []).filter((argument) => {
    if (argument.type !== 'named' || !['-e', '--env'].includes(argument.name)) return true;
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?$/s.exec(argument.value ?? '') ?? [];
    if (name === undefined) return true;
    const { description, isRequired, isSecret, variables } = argument;
    moved.push({ name, value, description, isRequired, isSecret, variables });
    return false;
  });
  return {
    ...offered,
    runtimeArguments: rest,
    environmentVariables: [...(offered.environmentVariables ?? []), ...moved],
  };
}

function assertNoRunnerArguments(
  { runtimeArguments, identifier, version }: RegistryPackage,
  { harmless, command }: PackageRunner,
  hint: string | undefined,
): void {
  const image = identifier.replace(/[:@][^/]*$/, '');
  const known = [
    ...harmless,
    identifier,
    image,
    `${identifier}@${version}`,
    `${identifier}==${version}`,
    'run',
    'true',
  ];
  const other = (runtimeArguments ?? []).find((argument) => {
    const words = argument.type === 'named' ? [argument.name, argument.value ?? ''] : [argument.value ?? ''];
    return words.some((word) => word !== '' && !known.includes(word)) || argument.variables != null;
  });
  if (other === undefined) return;
  const [usual] = command({ identifier, version } as RegistryPackage, []);
  const shown = other.type === 'named' ? other.name : (other.value ?? other.valueHint ?? '');
  throw new EntryProblem(
    `it has arguments for ${hint ?? usual} itself ("${shown}"), which are not taken over because they can decide what runs`,
  );
}

/** The arguments of the package itself: fixed ones, and defaults where the person gives none. */
function collectArguments(offered: readonly RegistryArgument[], given: readonly string[]): string[] {
  const missing: MissingInput[] = [];
  const args = offered.flatMap((argument) => {
    const name = argument.type === 'named' ? argument.name : (argument.valueHint ?? 'value');
    const fixed = resolveValue(argument);
    if (fixed !== undefined) return withName(argument, fixed);
    const { isRequired, isSecret, description } = describeInput(argument);
    if (!isRequired || given.length > 0) return [];
    if (argument.value == null && argument.default != null && !isSecret) return withName(argument, argument.default);
    missing.push({ name, description, isSecret });
    return [];
  });
  if (missing.length > 0) {
    const names = missing.map(({ name, description }) => (description === '' ? name : `${name} (${description})`));
    throw new EntryProblem(`it needs arguments, which you add after "--": ${names.join(', ')}`);
  }
  return args;
}

function withName(argument: RegistryArgument, value: string): string[] {
  if (argument.type === 'positional') return [value];
  return value === '' ? [argument.name] : [argument.name, value];
}

/** Refuses an argument of an entry that names something on this machine: a sandbox may open it to the server. */
function assertNoLocalFile(arg: string, folder: string): void {
  const paths = [arg, arg.slice(arg.indexOf('=') + 1), arg.replace(/^file:\/\//, '')];
  const isRelative = !arg.startsWith('-') && !isDotPath(arg);
  const named = paths.find((path) => (isAbsolute(path) || isRelative) && existsSync(resolve(folder, path)));
  if (named !== undefined) throw new EntryProblem(`its arguments name a file or folder of this machine (${named})`);
}

/** Describes an input to the person. One with placeholders needs what its variables need. */
function describeInput({ isRequired, isSecret, description, variables }: InputWithVariables): Omit<
  MissingInput,
  'name'
> & {
  readonly isRequired: boolean;
} {
  const parts = Object.values(variables ?? {});
  return {
    isRequired: isRequired === true || parts.some((part) => part.isRequired === true),
    isSecret: isSecret === true || parts.some((part) => part.isSecret === true),
    description: description ?? parts.find((part) => part.description != null)?.description ?? '',
  };
}

type InputWithVariables = Omit<RegistryInput, 'name'>;

/** The fixed value of an input; undefined where it has none, or where a placeholder in it has no value. */
function resolveValue({ value, variables }: Pick<RegistryInput, 'value' | 'variables'>): string | undefined {
  if (value == null) return undefined;
  let isComplete = true;
  const resolved = value.replace(/\{([^{}]+)\}/g, (whole, name: string) => {
    const variable = variables != null && Object.hasOwn(variables, name) ? variables[name] : undefined;
    if (variable === undefined) return whole;
    const found = variable.value ?? (variable.isSecret === true ? undefined : variable.default);
    if (found == null) isComplete = false;
    return found ?? whole;
  });
  return isComplete ? resolved : undefined;
}

interface CollectedInputs {
  readonly values: Record<string, string>;
  readonly missing: readonly MissingInput[];
  readonly optional: readonly string[];
}

/** Sorts variables or headers: those with a value, those that the person has to set, and those that may be set. */
function collectInputs(
  offered: readonly RegistryInput[],
  given: Readonly<Record<string, string>>,
  what: 'variable' | 'header',
): CollectedInputs {
  const values: Record<string, string> = {};
  const missing: MissingInput[] = [];
  const optional: string[] = [];
  for (const input of offered) {
    const { name } = input;
    const { isRequired, isSecret, description } = describeInput(input);
    if (what === 'variable' && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw new EntryProblem(`"${name}" is not the name of a variable`);
    }
    const refused = what === 'variable' ? whyVariableRefused(name, '') : undefined;
    if (refused !== undefined) throw new EntryProblem(`it sets ${name}: ${refused}`);
    if (Object.hasOwn(given, name)) continue;
    const fixed = resolveValue(input);
    const usual = isSecret || input.value != null ? undefined : (input.default ?? undefined);
    if (fixed !== undefined) values[name] = fixed;
    else if (!isRequired) optional.push(name);
    else if (usual !== undefined) values[name] = usual;
    else missing.push({ name, description, isSecret });
  }
  return { values: { ...values, ...given }, missing, optional };
}

function planRemote({ type, url, headers: offered }: RegistryRemote, given: GivenValues): EntryPlan {
  if (type !== 'streamable-http' && type !== 'sse')
    throw new EntryProblem(`addresses that speak "${type}" are not supported`);
  if (/[{}]/.test(url))
    throw new EntryProblem('its address has a part that you fill in: use --url with the full address');
  if (/\s/.test(url) || !URL.canParse(url) || new URL(url).protocol !== 'https:') {
    throw new EntryProblem('its address does not start with https://');
  }
  const { hostname, username, password } = new URL(url);
  if (username !== '' || password !== '') throw new EntryProblem('its address holds a user name or a password');
  if (isLocalHost(hostname)) throw new EntryProblem('its address is on a private network');
  if (Object.keys(given.env).length > 0 || given.args.length > 0) {
    throw new EntryProblem('variables and arguments go with a package, not with an address');
  }
  const { values: headers, missing, optional } = collectInputs(offered ?? [], given.headers, 'header');
  return {
    kind: 'remote',
    entry: { ...(type === 'sse' ? { type } : {}), url, ...(Object.keys(headers).length === 0 ? {} : { headers }) },
    missing,
    optional,
    notes: ['Tool calls are sent to this address.'],
  };
}

function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/(?<!\.)\.+$/, '');
  if (isIP(host) !== 0) return isPrivateAddress(host);
  return !host.includes('.') || /\.(?:localhost|local|internal|lan|home\.arpa)$/.test(host);
}
