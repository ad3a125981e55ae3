// The few parts of Airflow's UI that the page uses. Their own packages would bring a hundred others, for types alone.

declare module "react-router-dom" {
  import type { AnchorHTMLAttributes, ReactElement, Ref } from "react";

  type To = string | { pathname?: string; search?: string };
  interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
    to: To;
    ref?: Ref<HTMLAnchorElement>;
  }
  export function Link(props: LinkProps): ReactElement;
  export function useNavigate(): (to: To) => void;
  export function useSearchParams(): [
    URLSearchParams,
    (change: (before: URLSearchParams) => URLSearchParams, how?: { replace?: boolean }) => void,
  ];
}

declare module "@chakra-ui/react" {
  import type { ButtonHTMLAttributes, ReactElement, ReactNode } from "react";

  interface Part {
    children?: ReactNode;
    className?: string;
    asChild?: boolean;
  }
  interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
    size?: "xs" | "sm" | "md";
    variant?: "solid" | "outline" | "ghost" | "subtle";
    colorPalette?: string;
    loading?: boolean;
    loadingText?: string;
  }
  type Component<Props> = (props: Props) => ReactElement;

  export const Button: Component<ButtonProps>;
  export const Portal: Component<Part>;
  export const Dialog: {
    Root: Component<
      Part & {
        open: boolean;
        onOpenChange: (change: { open: boolean }) => void;
        size?: "sm" | "md" | "lg" | "xl";
        scrollBehavior?: "inside" | "outside";
        initialFocusEl?: () => HTMLElement | null;
        lazyMount?: boolean;
        unmountOnExit?: boolean;
        placement?: "top" | "center";
      }
    >;
    Backdrop: Component<Part>;
    Positioner: Component<Part>;
    Content: Component<Part>;
    Header: Component<Part>;
    Title: Component<Part>;
    Body: Component<Part>;
    Footer: Component<Part>;
  };
  export const Menu: {
    Root: Component<Part & { onSelect?: (chosen: { value: string }) => void }>;
    Trigger: Component<Part>;
    Positioner: Component<Part>;
    Content: Component<Part>;
    Item: Component<Part & { value: string }>;
  };
}
