/** The cookie that ties a login to the browser it began in. */
export interface LoginCookie {
  /** The header that sets it. */
  set(value: string): string;
  /** Undefined where there is none, or more than one: then somebody else has set one of them. */
  read(header: string | undefined): string | undefined;
}

const name = 'ambit-login';
const seconds = 600;

/**
 * Cookies are shared by all ports of a host, and a sibling domain can set them. Over https the prefix `__Host-` keeps
 * sibling domains and plain http from it. Other ports of the host can still plant one, so nothing is done on the cookie alone.
 */
export function createLoginCookie(base: URL): LoginCookie {
  const isSecure = base.protocol === 'https:';
  const called = isSecure ? `__Host-${name}` : name;
  const path = isSecure ? '/' : `${base.pathname.replace(/\/$/, '')}/oauth/callback`;
  const secure = isSecure ? '; Secure' : '';
  return {
    set: (value) => `${called}=${value}; HttpOnly; SameSite=Lax; Max-Age=${seconds}; Path=${path}${secure}`,
    read(header = '') {
      const found = header
        .split(';')
        .map((pair) => pair.trim())
        .filter((pair) => pair.startsWith(`${called}=`))
        .map((pair) => pair.slice(called.length + 1));
      const [value = ''] = found;
      return found.length === 1 && /^[\w-]{43}$/.test(value) ? value : undefined;
    },
  };
}
