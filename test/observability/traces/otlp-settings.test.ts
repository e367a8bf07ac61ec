import { expect, test } from 'vitest';
import { readOtlpSettings } from '../../../src/observability/traces/otlp-settings.ts';

const none = { headers: {}, sampleRatio: 1 };
const file = { otlpUrl: 'https://file.example/otlp', headers: { 'x-key': 'of the file' }, sampleRatio: 0.5 };
const readUrl = (env: NodeJS.ProcessEnv, config: Parameters<typeof readOtlpSettings>[0] = none) =>
  readOtlpSettings(config, env)?.url.href;

test('nothing is exported unless a URL is configured', () => {
  expect(readOtlpSettings(none)).toBeUndefined();
  expect(readOtlpSettings(none, { OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_HEADERS: 'a=b' })).toBeUndefined();
  for (const text of ['', 'collector:4318', 'file:///etc/passwd', 'unix:/x']) {
    expect(readOtlpSettings(none, { OTEL_EXPORTER_OTLP_ENDPOINT: text })).toBeUndefined();
  }
  expect(readOtlpSettings(file, { OTEL_SDK_DISABLED: 'TRUE' })).toBeUndefined();
});

test('the URL of a collector gets the path for traces, unless it has it', () => {
  expect(readUrl({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://one:4318' })).toBe('http://one:4318/v1/traces');
  expect(readUrl({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://one:4318/under/' })).toBe('http://one:4318/under/v1/traces');
  expect(readUrl({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://one/as-it-is' })).toBe('http://one/as-it-is');
  expect(readUrl({}, file)).toBe('https://file.example/otlp/v1/traces');
  expect(readUrl({}, { ...file, otlpUrl: 'https://file.example/v1/traces?a=1' })).toBe(
    'https://file.example/v1/traces?a=1',
  );
});

test('the environment precedes the file, with its own headers: a key never goes to another collector', () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env:4318', OTEL_SERVICE_NAME: 'edge' };
  expect(readOtlpSettings(file, env)).toMatchObject({ headers: {}, sampleRatio: 0.5, serviceName: 'edge' });
  expect(readOtlpSettings(file)).toMatchObject({ headers: { 'x-key': 'of the file' }, serviceName: 'ambit' });
  const headers = 'api-key=a%20b%3D=, bad name=x,nothing,x-line=a%0d%0ab, odd=%zz';
  expect(readOtlpSettings(none, { ...env, OTEL_EXPORTER_OTLP_HEADERS: headers })?.headers).toEqual({
    'api-key': 'a b==',
    odd: '%zz',
  });
});
