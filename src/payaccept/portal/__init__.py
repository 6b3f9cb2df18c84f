"""The portal: pages for merchants, their customers and the provider's staff.

**A page group is a module of this package**, with its templates in a folder of the same name. It needs `operations`,
`domain` and `wire`, never an adapter: what it works with comes as `services` (`services.py`), made in `wiring`.

To add one:

1. Write the module. Each handler declares exactly one `access` guard, the whole of its authorisation, and takes
   what it needs by name: `request`, `services`, `viewer` (who is signed in), `membership` (with `member` guards);
   parts of the path as `FromPath[str]`, of the query as `FromQuery[str]` or `Annotated[…, QueryParameter(…)]`.

       @get("/m/{client_id:str}/keys", guards=[member(Permission.VIEW)])
       async def show(
           request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
       ) -> Page:
           keys = await services.merchants.list_keys(membership.client_id)
           return page(request, "keys/list.html", keys=keys)

       routes = (show,)

   `member(permission)` answers 404 to strangers of that merchant and 403 to members whose role lacks the
   permission; `signed_in()`, `staff()` and `everyone()` are the others. The signed-out are sent to sign in.
   Every object that a handler reads or changes is looked up *under* `membership.client_id`, never by its id alone.
2. A form is a POST with `{{ csrf() }}` inside: the guard checks token and origin before the handler runs. Read it
   with `Form` (`forms.py`), answer a mistake with `page(…, form=form, status=422)`, so that what was typed stays, and
   success with `go(…)`, a redirect with a notice. Whoever changes something passes `actor(request)` on, for the
   audit log.
3. Write `templates/<module>/….html`, extending `frame.html` and using the macros of `parts.html`. No inline script
   or style: the Content-Security-Policy forbids both. What JavaScript adds goes to `static/portal.js`.
4. Name the module in `app.PAGES`, and its place in the navigation, if it has one, in `navigation.py`.
5. Add a row for each route to `tests/portal/test_access.py`: the matrix fails while a route has none.
"""
