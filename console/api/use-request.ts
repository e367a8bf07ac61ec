import { type ReadonlySignal, type Signal, useSignal, useSignalEffect } from '@preact/signals';
import { useCallback, useEffect, useRef } from 'preact/hooks';
import type { RequestOf } from '../../src/entrances/control/routes.ts';
import { type AnswerOf, type RouteName, request } from './request.ts';

/** An answer of the control API that a view shows. */
export interface Loaded<Answer> {
  /** The latest answer. It stays while a newer one is loading. */
  readonly answer: ReadonlySignal<Answer | undefined>;
  readonly error: ReadonlySignal<Error | undefined>;
  readonly isLoading: ReadonlySignal<boolean>;
  reload(): Promise<void>;
}

interface Options {
  /** Asks again after this time while the page is visible. */
  readonly everyMs?: number;
  /** Waits with the first request until this is true. */
  readonly when?: boolean;
}

/** Asks the control API when the view opens, and again when the request changes. */
export function useRequest<Name extends RouteName>(
  name: Name,
  parts: RequestOf<Name> = {},
  { everyMs, when = true }: Options = {},
): Loaded<AnswerOf<Name>> {
  const answer: Signal<AnswerOf<Name> | undefined> = useSignal(undefined);
  const error = useSignal<Error | undefined>(undefined);
  const isLoading = useSignal(when);
  const running = useRef<AbortController>(undefined);
  const key = JSON.stringify([name, parts]);

  const reload = useCallback(async () => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    isLoading.value = true;
    try {
      const [asked, given] = JSON.parse(key) as [Name, RequestOf<Name>];
      answer.value = await request(asked, { ...given, signal: controller.signal });
      error.value = undefined;
    } catch (failure) {
      if (controller.signal.aborted) return;
      error.value = failure as Error;
    } finally {
      if (running.current === controller) isLoading.value = false;
    }
  }, [key]);

  useEffect(() => {
    if (!when) return;
    answer.value = undefined;
    error.value = undefined;
    void reload();
    return () => running.current?.abort();
  }, [key, when]);

  useEffect(() => {
    if (everyMs === undefined || !when) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs, when]);

  return { answer, error, isLoading, reload };
}

/** Calls the function when a signal that it reads changes, as long as the component is shown. */
export const useReaction = useSignalEffect;
