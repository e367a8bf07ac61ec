import { realpathSync } from 'node:fs';
import { forwarderProgram } from '../../own-files.ts';
import { runtimeFiles, type ServerFiles } from '../bwrap/server-files.ts';
import type { Confinement, Shown } from '../common/confinement.ts';
import type { Launch, WayOut } from '../runner.ts';

export interface EgressInside {
  /** Comes before the program of the server, and starts it. */
  readonly before: readonly string[];
  readonly shown: readonly Shown[];
  readonly env: Readonly<Record<string, string>>;
}

const port = 3128;
const socketInside = '/run/egress/socket';
// The file ending says which kind of module it is, in any folder.
const forwarderInside = '/run/egress/forwarder.mjs';
/** Small, since the process counts against the limits of the server. */
const nodeOptions = ['--v8-pool-size=0', '--max-old-space-size=32', '--max-semi-space-size=1'];

/** Returns everything a process needs inside to reach its proxy. `node` is a program that is visible there. */
export function prepareEgress({ socket, allowed }: WayOut, node: string): EgressInside {
  const url = `http://127.0.0.1:${port}`;
  const direct = listDirectNames(allowed);
  return {
    before: [node, ...nodeOptions, forwarderInside, socketInside, String(port)],
    shown: [
      { real: realpathSync.native(socket), inside: socketInside },
      { real: realpathSync.native(forwarderProgram), inside: forwarderInside },
    ],
    env: {
      HTTP_PROXY: url,
      HTTPS_PROXY: url,
      http_proxy: url,
      https_proxy: url,
      NO_PROXY: direct,
      no_proxy: direct,
      // Newer versions of Node heed the variables above only with this one.
      NODE_USE_ENV_PROXY: '1',
    },
  };
}

/** The sandbox has a loopback of its own, unless that of the machine is what was listed. */
function listDirectNames(allowed: readonly string[]): string {
  const hosts = new Set(allowed.map((entry) => entry.replace(/:\d+$/, '').toLowerCase()));
  const names = ['localhost', '127.0.0.1', '[::1]'].filter((name) => !hosts.has(name));
  return names.map((name) => name.replace(/^\[|\]$/g, '')).join(',');
}

/**
 * Adds the forwarder to the proxy beside the server. It is started by the Node that Ambit runs on, or in an image by
 * the Node of that image: programs of this machine need not run there.
 */
export function addEgressProxy(
  launch: Launch,
  confinement: Confinement,
  files: ServerFiles,
): [Launch, Confinement, ServerFiles & { readonly before?: readonly string[] }] {
  if (launch.wayOut === undefined) return [launch, confinement, files];
  const inImage = confinement.image !== undefined;
  const runtime = inImage ? { shown: [], links: [] } : runtimeFiles(process.execPath, confinement.hidden);
  const { before, shown, env } = prepareEgress(launch.wayOut, inImage ? 'node' : process.execPath);
  return [
    { ...launch, env: { ...env, ...launch.env } },
    confinement,
    {
      ...files,
      before,
      shown: [...files.shown, ...runtime.shown, ...shown],
      links: [...files.links, ...runtime.links],
    },
  ];
}
