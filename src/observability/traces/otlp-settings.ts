export interface OtlpSettings {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Ratio of recorded traces among those that start here; callers decide about their own. */
  readonly sampleRatio: number;
  readonly serviceName: string;
}

export interface TelemetryConfig {
  readonly otlpUrl?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly sampleRatio: number;
}

const tracesPath = '/v1/traces';
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Reads the settings. The environment precedes the file, with the names that OpenTelemetry defines. Each source has its
 * own headers: a key for one collector must not go to another.
 */
export function readOtlpSettings(config: TelemetryConfig, env: NodeJS.ProcessEnv = {}): OtlpSettings | undefined {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return undefined;
  const common = { sampleRatio: config.sampleRatio, serviceName: env['OTEL_SERVICE_NAME'] || 'ambit' };
  const whole = readUrl(env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']);
  const named = whole ?? addTracesPath(readUrl(env['OTEL_EXPORTER_OTLP_ENDPOINT']));
  if (named !== undefined) {
    const headers = env['OTEL_EXPORTER_OTLP_TRACES_HEADERS'] ?? env['OTEL_EXPORTER_OTLP_HEADERS'];
    return { url: named, headers: readHeaders(headers), ...common };
  }
  const url = addTracesPath(readUrl(config.otlpUrl));
  return url === undefined ? undefined : { url, headers: config.headers, ...common };
}

function readUrl(text: string | undefined): URL | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) ? url : undefined;
}

/** Adds the path, unless the URL already has it. */
function addTracesPath(url: URL | undefined): URL | undefined {
  if (url === undefined || url.pathname.endsWith(tracesPath)) return url;
  const whole = new URL(url);
  whole.pathname = `${url.pathname.replace(/\/$/, '')}${tracesPath}`;
  return whole;
}

/** Reads `name=value,name=value`, with percent-encoded values. */
function readHeaders(text = ''): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const pair of text.split(',')) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, Math.max(at, 0)).trim();
    const value = decodeHeader(pair.slice(at + 1).trim());
    if (headerName.test(name) && headerValue.test(value)) headers[name] = value;
  }
  return headers;
}

function decodeHeader(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
