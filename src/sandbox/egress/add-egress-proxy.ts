import { realpathSync } from 'node:fs';
import { forwarderProgram } from '../../package-paths.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { runtimeFiles, type ServerFiles } from '../common/server-files.ts';
import type { ProcessLaunch } from '../runner.ts';

const port = 3128;
const socketInside = '/run/egress/socket';
// The file ending says which kind of module it is, in any folder.
const forwarderInside = '/run/egress/forwarder.mjs';
/** Small, since the process counts against the limits of the server. */
const nodeOptions = ['--v8-pool-size=0', '--max-old-space-size=32', '--max-semi-space-size=1'];

/**
 * Adds the forwarder to the proxy beside the server, which it starts. It runs on the Node that Ambit runs on, or in an
 * image on the Node of that image: programs of this machine need not run there.
 */
export function addEgressProxy(
  launch: ProcessLaunch,
  confinement: Confinement,
  files: ServerFiles,
): [ProcessLaunch, Confinement, ServerFiles] {
  if (launch.egressProxy === undefined) return [launch, confinement, files];
  const { socket, allowed } = launch.egressProxy;
  const inImage = confinement.image !== undefined;
  const runtime = inImage ? { mounts: [], links: [] } : runtimeFiles(process.execPath, confinement.hidden);
  const node = inImage ? 'node' : process.execPath;
  const forwarding: Mount[] = [
    { source: realpathSync.native(socket), target: socketInside },
    { source: realpathSync.native(forwarderProgram), target: forwarderInside },
  ];
  return [
    { ...launch, env: { ...proxyEnvironment(allowed), ...launch.env } },
    confinement,
    {
      ...files,
      before: [node, ...nodeOptions, forwarderInside, socketInside, String(port)],
      mounts: [...files.mounts, ...runtime.mounts, ...forwarding],
      links: [...files.links, ...runtime.links],
    },
  ];
}

/** The loopback of the sandbox needs no proxy, unless the loopback of the machine is listed. */
function proxyEnvironment(allowed: readonly string[]): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const hosts = new Set(allowed.map((entry) => entry.replace(/:\d+$/, '').toLowerCase()));
  const names = ['localhost', '127.0.0.1', '[::1]'].filter((name) => !hosts.has(name));
  const direct = names.map((name) => name.replace(/^\[|\]$/g, '')).join(',');
  return {
    HTTP_PROXY: url,
    HTTPS_PROXY: url,
    http_proxy: url,
    https_proxy: url,
    NO_PROXY: direct,
    no_proxy: direct,
    // Newer versions of Node read the variables above only with this one.
    NODE_USE_ENV_PROXY: '1',
  };
}
