/**
 * A fetch that tells when the GET stream is there. Clients open it beside their first requests and do not wait for
 * it; what a server says before then is lost, with a gateway between or without. `after` holds the GET back.
 */
export function createStreamNoticingFetch(after: Promise<void> = Promise.resolve()): {
  readonly fetch: typeof fetch;
  readonly opened: Promise<void>;
} {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    opened,
    async fetch(input, init) {
      if (init?.method === 'GET') await after;
      const response = await fetch(input, init);
      if (init?.method === 'GET') open();
      return response;
    },
  };
}
