#!/usr/bin/env node
// Older versions of Node must be able to read this file, to say that they are too old.
const [major, minor] = process.versions.node.split('.').map(Number);

function fail(...lines) {
  for (const line of lines) console.error(`ambit: ${line}`);
  process.exitCode = 1;
}

function run({ main }) {
  return main(process.argv.slice(2), process.env).then((code) => {
    process.exitCode = code;
    // Whoever has stopped reading our output must not keep us from leaving.
    setTimeout(() => process.exit(), 2000).unref();
  });
}

if (major < 20 || (major === 20 && minor < 19)) {
  fail(
    `Ambit needs Node 20.19 or newer. This is Node ${process.versions.node}.`,
    'Install a newer Node: https://nodejs.org',
  );
} else {
  // The reader of our output may leave before its end, as in "ambit session list | head -1".
  process.stdout.on('error', (error) => error.code === 'EPIPE' || fail(error.message));
  import('../dist/cli/main.js').then(run, (error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    fail('A file of Ambit is missing.', 'In a checkout, run "npm ci" to build it. Otherwise install ambit-mcp again.');
    if (process.env.AMBIT_DEBUG) console.error(error);
  });
}
