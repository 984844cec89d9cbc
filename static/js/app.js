// Small comforts. Every one of them has a way that works without this file.
"use strict";

(() => {
  const root = document.documentElement;

  // The colour switch changes the page at once; the form's own POST sets the same cookie without a script.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-theme-form]")) return;
    event.preventDefault();
    const choice = event.submitter.value;
    root.dataset.bsTheme = choice;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `theme=${choice}; path=/; max-age=31536000; SameSite=Lax${secure}`;
    form.querySelectorAll("button").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.value === choice));
    });
  });

  // <button data-copy="#id"> copies the text of that element.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.querySelector(button.dataset.copy);
    await navigator.clipboard.writeText(source.value ?? source.textContent.trim());
    const before = button.textContent;
    button.textContent = button.dataset.copied || before;
    setTimeout(() => { button.textContent = before; }, 2000);
  });

  // Menus made of <details> close on Escape and on a click elsewhere.
  const close = (except) => {
    document.querySelectorAll("details.menu[open]").forEach((menu) => {
      if (menu !== except) menu.open = false;
    });
  };
  document.addEventListener("click", (event) => close(event.target.closest("details.menu")));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  // What scrolls sideways can be reached and scrolled by keyboard in every browser.
  const reachable = () => {
    document.querySelectorAll(".table-responsive, .section-nav, .main-nav").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  };
  addEventListener("resize", reachable);
  document.addEventListener("htmx:afterSettle", reachable);
  reachable();

  // The entry of the page on screen is in view, also where a navigation is wider than the phone.
  document.querySelectorAll(".section-nav, .main-nav").forEach((box) => {
    const here = box.querySelector("[aria-current]");
    if (here) box.scrollLeft = here.offsetLeft + here.offsetWidth - box.clientWidth + 16;
  });

  // A form is sent once, however often its button is clicked.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    event.target.dataset.sent = "1";
    setTimeout(() => { delete event.target.dataset.sent; }, 3000);
  });
})();
