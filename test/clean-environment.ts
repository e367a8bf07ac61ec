/** Files share processes: what one of them leaves in the environment must not reach the next. */
const key = Symbol.for('ambit.test.environment');
const shared = globalThis as { [key]?: NodeJS.ProcessEnv };
shared[key] ??= withoutCertificates(process.env);
const clean = shared[key];

// The runner's own may change from file to file.
const isOurs = (name: string) => !name.startsWith('VITEST');
for (const name of Object.keys(process.env)) if (isOurs(name) && !(name in clean)) delete process.env[name];
for (const [name, value] of Object.entries(clean)) if (isOurs(name)) process.env[name] = value;

/** Every process of Node reads all of them as it starts, which takes longer than the start; nobody but npm goes out. */
function withoutCertificates({ NODE_EXTRA_CA_CERTS: file, ...rest }: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return file === undefined ? rest : { npm_config_cafile: file, ...rest };
}
