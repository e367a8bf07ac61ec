import { mkdtempSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Files share processes: what one of them leaves in the environment must not reach the next. */
const key = Symbol.for('ambit.test.environment');
const shared = globalThis as { [key]?: NodeJS.ProcessEnv };
shared[key] ??= withPrivateRuntime(withoutCertificates(process.env));
const clean = shared[key];

// The runner's own may change from file to file.
const isOurs = (name: string) => !name.startsWith('VITEST');
for (const name of Object.keys(process.env)) if (isOurs(name) && !(name in clean)) delete process.env[name];
for (const [name, value] of Object.entries(clean)) if (isOurs(name)) process.env[name] = value;

/** Every process of Node reads all of them as it starts, which takes longer than the start; nobody but npm goes out. */
function withoutCertificates({ NODE_EXTRA_CA_CERTS: file, ...rest }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return file === undefined ? rest : { npm_config_cafile: file, ...rest };
}

/**
 * Gateways are listed in the runtime folder: those of tests must not appear among the user's own, nor among those of
 * other workers. The other entries of the user's folder stay, since systemd and podman are found by them.
 */
function withPrivateRuntime({ AMBIT_TEST_RUNTIMES, ...env }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const folder = mkdtempSync(join(AMBIT_TEST_RUNTIMES as string, 'worker-'));
  const { XDG_RUNTIME_DIR: own } = env;
  const names = own ? readdirSync(own).filter((name) => !name.startsWith('ambit')) : [];
  for (const name of names) symlinkSync(join(own as string, name), join(folder, name));
  return { ...env, XDG_RUNTIME_DIR: folder };
}
